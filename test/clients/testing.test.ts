import assert from 'node:assert/strict'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort, startProcess } from '../support/process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/testing.md'), 'utf8')
const DOCUMENTED_PORT = '57610'

/** The files of the page, in a project that has the packages installed. */
async function project(t: TestContext): Promise<string> {
  const directory = await temporaryDirectory(t)
  const port = String(await freePort())
  await mkdir(join(directory, 'node_modules', '@playwright'), { recursive: true })
  for (const name of ['vitest', 'jest', '@playwright/test', '.bin'])
    symlinkSync(join(root, 'test/clients/node_modules', name), join(directory, 'node_modules', name))
  symlinkSync(root, join(directory, 'node_modules', 'recollect'))
  const files = page.matchAll(/^```js (\S+)\n([\s\S]*?)^```$/gm)
  for (const [, name = '', text = ''] of files)
    writeFileSync(join(directory, name), text.replaceAll(DOCUMENTED_PORT, port))
  writeFileSync(join(directory, 'db.json'), '{"people": [{"id": 1, "name": "Ada"}]}')
  writeFileSync(join(directory, 'package.json'), '{"type": "module"}')
  writeFileSync(join(directory, 'vitest.config.js'), 'export default { test: { include: ["*.vitest.js"] } }')
  return directory
}

for (const command of ['npx vitest run', 'npx jest', 'npx playwright test']) {
  test(`the recipe for \`${command}\` resets the server before each test`, async (t) => {
    assert.ok(page.includes(`\n${command}\n`))
    const { ended, stdout, stderr } = startProcess(t, command.split(' '), { cwd: await project(t) })
    const { code } = await ended()
    const printed = stripVTControlCharacters(stdout() + stderr())
    assert.equal(code, 0, printed)
    assert.match(printed, /\b2 passed\b/)
  })
}
