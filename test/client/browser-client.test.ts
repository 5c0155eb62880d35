import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { runInChromium, SLOWEST } from './in-browser/run.ts'

// In a file of its own, which runs beside browser.test.ts: it takes about as long as all others together.
test(`test/client/${SLOWEST}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, SLOWEST))
