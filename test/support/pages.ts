import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'

export const SENSORS = [
  { id: 1, name: 'one' },
  { id: 2, name: 'two' },
]
const HOSTILE = '</script><img src=x onerror="document.title=1">{a}\'"&%'
/** Names that must be shown as text, beside those of sensors. */
export const HOSTILE_DATA = {
  sensors: SENSORS,
  [HOSTILE]: [{ id: 1, [HOSTILE]: HOSTILE }],
  ['__proto__']: [{ id: 1 }],
}

/** The path of a built file of Swagger UI; its directory has a hash in its name. */
export function swaggerAsset(name: string): string {
  const directory = fileURLToPath(new URL('../../dist/pages/swagger', import.meta.url))
  return `/swagger/${readdirSync(directory).find((one) => one.startsWith('assets-'))}/${name}`
}

/** At first only the groups of operations are shown. */
export async function openTags(page: Page): Promise<void> {
  await page.locator('.opblock-tag').first().waitFor()
  const closed = page.locator('.opblock-tag[data-is-open="false"]')
  for (let left = await closed.count(); left > 0; left--) await closed.first().click()
}
