import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { flaws, openPage, withoutBrowser } from '../support/browser.ts'
import { HOSTILE_DATA, openTags } from '../support/pages.ts'
import { startProgram } from '../support/server.ts'

test('the description page has no accessibility flaw and fits any window, in light and dark', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startProgram(t, { data: HOSTILE_DATA })
  for (const { isMobile, looks } of [
    {
      isMobile: false,
      looks: [
        [1440, 'light'],
        [1440, 'dark'],
      ],
    },
    {
      isMobile: true,
      looks: [
        [390, 'dark'],
        [320, 'light'],
      ],
    },
  ] as const) {
    const { page, errors } = await openPage(t, `${server.url}/swagger/`, { isMobile })
    const eachLook = async (check: (width: number, look: string) => Promise<void>): Promise<void> => {
      for (const [width, colorScheme] of looks) {
        await page.setViewportSize({ width, height: 844 })
        await page.emulateMedia({ colorScheme })
        await page.locator(colorScheme === 'dark' ? 'html.dark-mode' : 'html:not(.dark-mode)').waitFor()
        await check(width, `${width} px, ${colorScheme}`)
      }
    }
    await openTags(page)
    await eachLook(async (width, look) => assert.equal(await contentWidth(page), width, look))
    await openEachKind(page)
    await eachLook(async (width, look) => {
      assert.equal(await contentWidth(page), width, `${look}, with open operations`)
      assert.deepEqual(await flaws(page), [], look)
    })
    assert.deepEqual(errors, [], `mobile: ${isMobile}`)
  }
})

/** The width of the page in pixels; more than the window's makes it scroll sideways. */
async function contentWidth(page: Page): Promise<number> {
  return Number(await page.evaluate('Math.max(document.documentElement.scrollWidth, innerWidth)'))
}

/** Opens an operation of each method, a response, a form and a schema. */
async function openEachKind(page: Page): Promise<void> {
  for (const method of ['get', 'post', 'put', 'patch', 'delete', 'head', 'options']) {
    await page.locator(`.opblock-${method} .opblock-summary-control`).first().click()
  }
  const get = page.locator('.opblock-get').first()
  await get.getByRole('button', { name: 'Try it out' }).click()
  await get.getByRole('button', { name: 'Execute' }).click()
  await get.locator('.live-responses-table').waitFor()
  const post = page.locator('.opblock-post').first()
  await post.getByRole('button', { name: 'Try it out' }).click()
  await page.locator('.opblock-patch').first().getByRole('tab', { name: 'Schema' }).first().click()
  await page.locator('.json-schema-2020-12-accordion').first().click()
}
