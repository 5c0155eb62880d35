import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { fetch } from '../support/deadline.ts'
import { HOSTILE_DATA, openTags, SENSORS, swaggerAsset } from '../support/pages.ts'
import { startReverseProxy } from '../support/proxies.ts'
import { json, SAMPLE, startProgram } from '../support/server.ts'

test('the description page, in a browser', { skip: withoutBrowser }, async (t) => {
  const server = await startProgram(t, { data: HOSTILE_DATA })
  const opened = await openPage(t, `${server.url}/swagger/`)
  const { page } = opened
  const block = (method: string, path: string) =>
    page.locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) })
  await openTags(page)

  await t.test('shows every documented operation', async () => {
    const { paths } = (await (await server.fetch('/openapi.json')).json()) as { paths: Record<string, object> }
    const documented = Object.entries(paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => [method, path]),
    )
    assert.equal(await page.locator('.opblock').count(), documented.length)
    for (const [method, path] of [
      ['get', '/api/sensors'],
      ['head', '/api/sensors'],
      ['options', '/api/sensors/{id}'],
      ['patch', '/api/sensors/{id}'],
      ['put', '/api/__proto__/{id}'],
      ['post', '/api/{collection}'],
      ['get', '/events/{position}'],
    ] as const) {
      assert.ok(await block(method, path).isVisible(), `${method} ${path}`)
    }
    const name = `Recollect · ${new URL(server.url).host}`
    assert.equal(await page.title(), name)
    assert.match(String(await page.locator('h1').textContent()), new RegExp(`^${name}`))
    assert.equal(await page.locator('.errors-wrapper').count(), 0)
  })

  await t.test('gets the items by "Try it out" without any parameter', async () => {
    const get = block('get', '/api/sensors')
    await get.locator('.opblock-summary-control').click()
    await get.getByRole('button', { name: 'Try it out' }).click()
    const answered = page.waitForResponse((response) => response.url().startsWith(`${server.url}/api/sensors`))
    await get.getByRole('button', { name: 'Execute' }).click()
    const response = await answered
    assert.equal(response.url(), `${server.url}/api/sensors`)
    assert.deepEqual(await response.json(), SENSORS)
    const shown = get.locator('.live-responses-table')
    await shown.locator('.response-col_status', { hasText: '200' }).waitFor()
    assert.match(String(await shown.textContent()), /"name": "two"/)
    assert.match(String(await shown.textContent()), /x-total-count: 2/)
  })

  await t.test('sends the proposed body by "Try it out"', async () => {
    const post = block('post', '/api/sensors')
    await post.locator('.opblock-summary-control').click()
    await post.getByRole('button', { name: 'Try it out' }).click()
    await post.getByRole('button', { name: 'Execute' }).click()
    await post.locator('.live-responses-table .response-col_status', { hasText: '201' }).waitFor()
    assert.deepEqual(await (await server.fetch('/api/sensors/3')).json(), { id: 3, name: 'string' })
  })

  await t.test('opens an operation of every kind', async () => {
    for (const [method, path] of [
      ['patch', '/api/sensors/{id}'],
      ['get', '/api/{collection}/{id}/{rest}'],
      ['get', '/events'],
      ['get', '/health'],
      ['post', '/admin/reload'],
    ] as const) {
      const opened = block(method, path)
      await opened.locator('.opblock-summary-control').click()
      await opened.locator('.responses-inner .response').first().waitFor()
    }
  })

  await t.test('shows the operation that its address names', async () => {
    const address = new URL(page.url())
    assert.notEqual(address.hash, '')
    await page.reload()
    await page.locator('.opblock.is-open').waitFor()
    assert.equal(new URL(page.url()).hash, address.hash)
  })

  await t.test('has an icon', async () => {
    const icon = await page.locator('link[rel="icon"]').getAttribute('href')
    const answer = await fetch(new URL(String(icon), page.url()))
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('content-type'), 'image/svg+xml')
  })

  await t.test('makes no error and no request to another host', () => {
    assert.deepEqual(opened.errors, [])
    assert.deepEqual(opened.outside, [])
  })
})

test('the description page leads back to the start page, below any path', { skip: withoutBrowser }, async (t) => {
  const server = await startProgram(t, { data: HOSTILE_DATA })
  const url = await startReverseProxy(t, server.url, { prefix: '/inner', strips: true })
  const { page, errors } = await openPage(t, `${url}/swagger/`)
  await openTags(page)
  assert.equal(await page.title(), `Recollect · ${new URL(url).host}/inner`)
  await page.getByRole('link', { name: 'Recollect' }).click()
  await page.waitForURL(`${url}/`)
  assert.deepEqual(errors, [])
})

test('the description page of a read-only server shows no operation that writes', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startProgram(t, { data: HOSTILE_DATA, flags: ['--read-only'] })
  const { page, errors } = await openPage(t, `${server.url}/swagger/`)
  await openTags(page)
  assert.equal(await page.locator('.opblock-put, .opblock-patch, .opblock-delete').count(), 0)
  assert.deepEqual(errors, [])
})

test('the description page loads at most 440 KB before its operations are shown', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page } = await openPage(t, `${server.url}/swagger/`)
  await openTags(page)
  const bytes = await page.evaluate(
    'performance.getEntries().reduce((sum, { transferSize = 0 }) => sum + transferSize, 0)',
  )
  assert.ok(Number(bytes) > 100_000 && Number(bytes) < 440_000, `${bytes} bytes`)
})

test('/swagger leads to /swagger/', async (t) => {
  const server = await startProgram(t, { data: { sensors: SENSORS } })
  for (const method of ['GET', 'HEAD']) {
    const answer = await server.fetch('/swagger', { method, redirect: 'manual' })
    assert.equal(answer.status, 301)
    assert.equal(answer.headers.get('location'), 'swagger/')
  }
  const page = await server.fetch('/swagger')
  assert.equal(page.status, 200)
  assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
  assert.doesNotMatch(await page.text(), /https?:\/\/(?!www\.w3\.org)/)
})

test('only /swagger/ itself is the page: swagger may be an id or a collection elsewhere', async (t) => {
  const server = await startProgram(t, { data: { sensors: SENSORS }, flags: ['--Api.UpsertOnPut', 'true'] })
  for (const path of ['/api/sensors/swagger', '/api/swagger/swagger', '/api/sensors/openapi.json']) {
    const created = await server.fetch(path, json('PUT', { name: 'x' }))
    assert.equal(created.status, 201, path)
    assert.equal(created.headers.get('location'), path)
    const { name } = (await (await server.fetch(path)).json()) as { name: string }
    assert.equal(name, 'x')
  }
  for (const path of ['/swagger/nothing', swaggerAsset('nothing'), swaggerAsset('..%2fmain.js'), '/x/swagger/']) {
    const missing = await server.fetch(path)
    assert.equal(missing.status, 404, path)
    assert.equal(missing.headers.get('content-type'), 'application/problem+json')
  }
  for (const path of ['/swagger', '/swagger/', '/openapi.json']) {
    const refused = await server.fetch(path, json('PUT', {}))
    assert.equal(refused.status, 405, path)
    assert.equal(refused.headers.get('allow'), 'GET, HEAD, OPTIONS')
  }
})
