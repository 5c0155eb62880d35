import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { MOST_TESTS, runInChromium } from './in-browser/run.ts'

// In a file of its own, which runs beside browser.test.ts: it takes about as long as all others together.
test(`test/client/${MOST_TESTS}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, MOST_TESTS))
