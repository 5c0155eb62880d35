import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { NAMES, runInChromium, SLOWEST } from './in-browser/run.ts'

for (const name of NAMES.filter((name) => name !== SLOWEST && !name.endsWith('.long'))) {
  test(`test/client/${name}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, name))
}
