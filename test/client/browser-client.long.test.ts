import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { runInChromium } from './in-browser/run.ts'

test('test/client/client.test.ts in Chromium', { skip: withoutBrowser }, (t) => runInChromium(t, 'client'))
