import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authentication, keyOf } from '../support/authentication.ts'
import { flaws, openPage, withoutBrowser } from '../support/browser.ts'
import { HOSTILE_DATA, openTags } from '../support/pages.ts'
import { startProgram } from '../support/server.ts'

test('the description page sends the credentials that were entered, in a dialog without a flaw', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startProgram(t, { data: HOSTILE_DATA, flags: authentication(['token', 'basic', 'apikey']) })
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page } = await openPage(t, `${server.url}/swagger/`, { colorScheme, viewport: { width: 390, height: 844 } })
    await page.getByRole('button', { name: 'Authorize', exact: true }).click()
    await page.locator('.modal-ux').waitFor()
    assert.deepEqual(await flaws(page), [], colorScheme)
    await page.getByLabel('Value:').last().fill(keyOf('reader'))
    await page.getByRole('button', { name: 'apply credentials' }).last().click()
    await page.getByRole('button', { name: 'Close' }).first().click()
    await openTags(page)
    const get = page.locator('.opblock-get').first()
    await get.locator('.opblock-summary-control').click()
    await get.getByRole('button', { name: 'Try it out' }).click()
    const answered = page.waitForResponse(`${server.url}/api/sensors`)
    await get.getByRole('button', { name: 'Execute' }).click()
    assert.equal((await answered).status(), 200)
  }
})
