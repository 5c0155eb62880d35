import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { json, SAMPLE } from '../support/server.ts'
import { startServer } from '../support/service.ts'

test('each page shows a change live, without an error or a request to another host', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startServer(t, { data: SAMPLE })
  for (const [path, shown] of [
    ['/', '30 items'],
    ['/collections.html', 'E1:09:5C:D2:77:40'],
    ['/sensors.html', '5 sensors'],
    ['/journal.html', '37 events'],
  ] as const) {
    const { page, errors, outside } = await openPage(t, server.url + path)
    await page.locator('#state[data-state=live]').waitFor()
    await page.getByText(shown).first().waitFor()
    assert.deepEqual([errors, outside], [[], []], path)
  }
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await page.getByText('37 events').first().waitFor()
  await server.fetch('/api/sensors/E1:09:5C:D2:77:40', json('PATCH', { data: { temperature: 24.5 } }))
  await page.getByText('38 events').first().waitFor()
})

test('the API page shows the groups of operations, without an error or a request to another host', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startServer(t, { data: SAMPLE })
  const { page, errors, outside } = await openPage(t, `${server.url}/swagger/`)
  await page.locator('.opblock-tag').first().waitFor()
  assert.deepEqual([errors, outside], [[], []])
})
