import type { Page } from 'playwright-core'
import { json, type RunningProgram } from './server.ts'

/** The row of a request, by the position of its last event. */
export const row = (page: Page, position: number) => page.locator(`#list [data-key="request ${position}"]`)

export const total = (page: Page, text: string) => page.locator(`#total:text-is("${text}")`).waitFor()

/** As many requests that create an item each. */
export async function post(server: RunningProgram, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 50) {
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => server.fetch('/api/rows', json('POST', {}))))
  }
}
