import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { runInChromium } from './in-browser/run.ts'

for (const name of ['access', 'client', 'events', 'fields', 'ids', 'live-list', 'methods']) {
  test(`test/client/${name}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, name))
}
