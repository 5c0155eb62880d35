import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { authentication, passwordOf, tokenOf } from '../support/authentication.ts'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort, startProcess } from '../support/process.ts'
import { json, startProgram } from '../support/server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Example {
  readonly url: string
  /** Stops the server, and starts it again at the same address. */
  restart(): Promise<void>
}

/** The page without a build step, served with its data by the command that README shows. */
async function startLive(t: TestContext, ...flags: readonly string[]): Promise<Example> {
  const directory = await temporaryDirectory(t)
  cpSync(join(root, 'examples/live'), directory, { recursive: true })
  const urls = `http://127.0.0.1:${await freePort()}`
  const start = () =>
    startProgram(t, { directory, isBare: true, flags: ['db.json', '--watch', '--urls', urls, ...flags] })
  let server = await start()
  return {
    url: server.url,
    restart: async () => {
      await server.stop()
      server = await start()
    },
  }
}

/** The page with React, from the development server of Vite in front of Recollect. */
async function startLiveReact(t: TestContext, ...flags: readonly string[]): Promise<Example> {
  const recollect = await startLive(t, ...flags)
  const directory = await temporaryDirectory(t)
  cpSync(join(root, 'examples/live-react'), directory, { recursive: true })
  const packages = join(directory, 'node_modules')
  mkdirSync(packages)
  symlinkSync(root, join(packages, 'recollect'))
  for (const name of ['react', 'react-dom', 'scheduler', 'uplot', 'vite'])
    symlinkSync(join(root, 'node_modules', name), join(packages, name))
  const port = await freePort()
  const vite = startProcess(
    t,
    [process.execPath, join(packages, 'vite/bin/vite.js'), '--port', String(port), '--host', '127.0.0.1'],
    {
      cwd: directory,
      env: { RECOLLECT: recollect.url },
    },
  )
  assert.ok(await vite.printed(/ready in/), vite.output())
  return { ...recollect, url: `http://127.0.0.1:${port}` }
}

const opened = async (t: TestContext, url: string): Promise<Page> => (await openPage(t, url)).page

const titleOf = (page: Page, id: number) => page.getByLabel(`title of post ${id}`)

const shows = (page: Page, id: number, title: string) =>
  until(`the title ${title}`, async () => (await titleOf(page, id).inputValue()) === title)

test('examples/live-react asks for the versions that are tested', () => {
  const [asked, tested] = [packageOf('examples/live-react'), packageOf('.')]
  const others = Object.entries(asked.dependencies).filter(([name]) => name !== 'recollect')
  assert.ok(others.length > 0)
  for (const [name, version] of others)
    assert.equal(version, tested.dependencies[name] ?? tested.devDependencies[name], name)
})

function packageOf(directory: string): Record<'dependencies' | 'devDependencies', Record<string, string>> {
  return JSON.parse(readFileSync(join(root, directory, 'package.json'), 'utf8'))
}

for (const [name, start] of [
  ['examples/live', startLive],
  ['examples/live-react', startLiveReact],
] as const) {
  test(`an edit in one tab of ${name} is shown in the other`, { skip: withoutBrowser }, async (t) => {
    const { url } = await start(t)
    const [one, other] = [await opened(t, url), await opened(t, url)]
    await titleOf(one, 2).fill('edited')
    await titleOf(one, 2).press('Tab')
    await shows(other, 2, 'edited')
  })

  test(`${name} charts the views of each day`, { skip: withoutBrowser }, async (t) => {
    const { url } = await start(t)
    const page = await opened(t, url)
    const chart = page.locator('.u-over')
    await chart.waitFor()
    await until('the views of the last day', async () => {
      // The chart moves as its axes get labels.
      const { x, y, width } = (await chart.boundingBox()) ?? assert.fail('the chart has no size')
      await page.mouse.move(x + width - 2, y + 10)
      return (await page.locator('.u-legend').textContent())?.includes('31')
    })
  })

  test(`an edit in ${name} of what somebody else has changed is refused, and shows the change`, {
    skip: withoutBrowser,
  }, async (t) => {
    const { url } = await start(t)
    const page = await opened(t, url)
    const message = page.waitForEvent('dialog').then(async (dialog) => {
      await dialog.accept()
      return dialog.message()
    })
    await titleOf(page, 1).focus()
    assert.equal((await fetch(`${url}/api/posts/1`, json('PATCH', { title: 'theirs' }))).status, 204)
    await titleOf(page, 1).fill('mine')
    await titleOf(page, 1).press('Tab')
    assert.match(await message, /Somebody else has changed this title/)
    await shows(page, 1, 'theirs')
  })

  test(`${name} asks for a password, and is still live after a restart of the server`, {
    skip: withoutBrowser,
  }, async (t) => {
    const { url, restart } = await start(t, ...authentication(['token']))
    const page = await opened(t, url)
    await page.getByLabel('name').fill('writer')
    await page.getByLabel('password').fill(passwordOf('writer'))
    await page.getByRole('button', { name: 'Sign in' }).click()
    await titleOf(page, 2).waitFor()
    await restart()
    const Authorization = `Bearer ${await tokenOf(url, 'writer')}`
    const patch = json('PATCH', { title: 'after the restart' }, { Authorization })
    assert.equal((await fetch(`${url}/api/posts/2`, patch)).status, 204)
    await shows(page, 2, 'after the restart')
  })
}
