import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { MOST_TESTS, NAMES, runInChromium } from './in-browser/run.ts'

for (const name of NAMES.filter((name) => name !== MOST_TESTS && !name.endsWith('.long'))) {
  test(`test/client/${name}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, name))
}
