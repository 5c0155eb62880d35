import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { barriers, openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { json, startProgram } from '../support/server.ts'

const options = { skip: withoutBrowser }
/** The most elements of the page, whatever an item contains. */
const ELEMENTS = 1500

const zeros = Array<number>(500_000).fill(0)
/** Within Limits.ItemValues, so that it can be changed. */
const texts = Array<string>(15_000).fill('a'.repeat(40))
const members = Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`member${index}`, 0]))
const nested = JSON.parse(`${'['.repeat(98)}0${']'.repeat(98)}`)
const branches = Array.from({ length: 50 }, () => Array.from({ length: 50 }, () => Array(50).fill([0])))
const HUGE: Readonly<Record<string, object>> = {
  zeros: { id: 'zeros', a: zeros },
  members: { id: 'members', ...members },
  'members within': { id: 'members within', a: members },
  nested: { id: 'nested', a: nested },
  branches: { id: 'branches', a: branches },
  text: { id: 'text', a: 'a'.repeat(1_000_000) },
}

function elements(page: Page): Promise<number> {
  return page.evaluate('document.getElementsByTagName("*").length')
}

test('a large item is shown in part, with more on request', options, async (t) => {
  const server = await startProgram(t, { data: { huge: Object.values(HUGE) } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html`)
  for (const id of Object.keys(HUGE)) {
    await page.goto(`${server.url}/collections.html?collection=huge&item=${encodeURIComponent(id)}`)
    const shown = page.locator('#item .json')
    await shown.waitFor()
    assert.ok((await elements(page)) < ELEMENTS, id)
    const length = (await shown.textContent())?.length
    await shown.locator('button, details:not([open]) > summary').last().click()
    const isLonger = `document.querySelector('#item .json').textContent.length > ${length}`
    await until('more of the item', () => page.evaluate<boolean>(isLonger))
    assert.ok((await elements(page)) < ELEMENTS, id)
  }
  assert.deepEqual(errors, [])
})

test(
  'an item that is too large for the editor can be patched, and its history shows that it changed',
  options,
  async (t) => {
    const server = await startProgram(t, { data: { huge: [{ id: 'texts', a: texts }] } })
    const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=huge&item=texts`)
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByText('too long to be edited as a whole').waitFor()
    const kinds = page.getByRole('group', { name: 'How to change it' }).getByRole('button')
    assert.deepEqual(await kinds.allTextContents(), ['Merge patch', 'JSON Patch'])
    assert.deepEqual(await barriers(page), [])
    await page.getByRole('textbox', { name: 'Item as JSON' }).fill('{"b": 5}')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.locator('#item .json').getByText('b:').waitFor()

    const { status } = await server.fetch('/api/huge/texts', json('PATCH', { a: texts.map(() => 'b') }))
    assert.equal(status, 204)
    await page.getByRole('button', { name: 'History' }).click()
    await page.locator('.timeline').locator('ins').first().waitFor()
    assert.ok((await elements(page)) < ELEMENTS)
    assert.deepEqual(errors, [])
  },
)
