import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startReverseProxy } from '../support/proxies.ts'
import { json, startProgram } from '../support/server.ts'

const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))

for (const [kind, strips] of [
  ['strips', true],
  ['leaves', false],
] as const) {
  test(`behind a proxy that ${kind} its path, every page works, also beside a wwwroot of the user`, {
    skip: withoutBrowser,
  }, async (t) => {
    const directory = await temporaryDirectory(t)
    await mkdir(join(directory, 'wwwroot', 'js'), { recursive: true })
    await writeFile(
      join(directory, 'wwwroot', 'index.html'),
      '<title>mine</title><script type="module" src="js/shell.js"></script>',
    )
    await writeFile(
      join(directory, 'wwwroot', 'js', 'shell.js'),
      'import { connect } from "../client/index.js"\ndocument.title += " has " + (await connect().collections())',
    )
    const server = await startProgram(t, { directory, data: SAMPLE, flags: ['--Http.BasePath', '/deep/path'] })
    const url = await startReverseProxy(t, server.url, { prefix: '/deep/path', strips })
    const mine = await openPage(t, `${url}/`)
    await until('the title', async () => (await mine.page.title()) === 'mine has sensors,sensordatas')
    assert.deepEqual(mine.outside, [])

    const { page, errors, outside } = await openPage(t, `${url}/collections.html`)
    await page.locator('#state[data-state=live]').waitFor()
    await page.getByText('E1:09:5C:D2:77:40').first().click()
    await page.locator('#item').getByText('46.5').first().waitFor()
    await page.getByRole('link', { name: 'Sensors', exact: true }).click()
    await page.locator('#state[data-state=live]').waitFor()
    await page.getByText('5 sensors').first().waitFor()
    await page.getByRole('link', { name: 'Journal', exact: true }).click()
    await page.locator('#state[data-state=live]').waitFor()
    await page.getByText('37 events').first().waitFor()
    await server.fetch('/api/sensors/E1:09:5C:D2:77:40', json('PATCH', { data: { temperature: 24.5 } }))
    await page.getByText('38 events').first().waitFor()
    await page.getByRole('link', { name: 'API', exact: true }).click()
    await page.locator('.opblock-tag', { hasText: 'sensors' }).first().click()
    const get = page.locator('.opblock-get', { has: page.locator('[data-path="/api/sensors"]') })
    await get.locator('.opblock-summary-control').click()
    await get.getByRole('button', { name: 'Try it out' }).click()
    const answered = page.waitForResponse((response) => response.url() === `${url}/api/sensors`)
    await get.getByRole('button', { name: 'Execute' }).click()
    assert.equal((await answered).status(), 200)
    assert.deepEqual([errors, outside], [[], []])
  })
}
