import { test } from 'node:test'
import { withoutBrowser } from '../support/browser.ts'
import { NAMES, runInChromium, SLOW } from './in-browser/run.ts'

for (const name of NAMES.filter((name) => !SLOW.includes(name))) {
  test(`test/client/${name}.test.ts in Chromium`, { skip: withoutBrowser }, (t) => runInChromium(t, name))
}
