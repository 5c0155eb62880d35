import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authentication, keyOf } from '../support/authentication.ts'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { SAMPLE, startProgram } from '../support/server.ts'

const options = { skip: withoutBrowser }
/** The first request for data of each page, and an element that needs the answer. */
const FIRST = [
  { path: '/', request: '**/events?order=desc&*', element: '.what-row .total:has-text("item")' },
  { path: '/collections.html', request: '**/api/sensors?*', element: '#table td' },
  { path: '/sensors.html', request: '**/api/sensors?*', element: '#tiles li' },
  { path: '/journal.html', request: '**/events?limit=*', element: '#list .main' },
]

test('on a read-only server the pages say so and offer no write', { skip: withoutBrowser }, async (t) => {
  const mac = 'E1:09:5C:D2:77:40'
  for (const [flags, count] of [
    [[], 1],
    [['--read-only', '--Api.UseResultObject', 'true'], 0],
  ] as const) {
    const server = await startProgram(t, { data: SAMPLE, flags })
    const { page, errors } = await openPage(
      t,
      `${server.url}/collections.html?collection=sensors&item=${encodeURIComponent(mac)}`,
    )
    await page.locator('#state[data-state=live]').waitFor()
    await page.locator('#item .value').waitFor()
    await page.locator('#table').getByRole('link', { name: mac }).waitFor()
    for (const name of ['New item', 'Edit', 'Delete'])
      assert.equal(await page.getByRole('button', { name, exact: true }).count(), count, name)
    assert.equal(await page.locator('#state').textContent(), count === 0 ? 'Read-only' : 'Live')

    await page.goto(`${server.url}/journal.html?event=37`)
    await page.getByText('37 events').first().waitFor()
    await page.locator('#event dl').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Restore this version…' }).count(), count)
    await page.keyboard.press('Escape')
    await page.getByText('Writes').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Verify the journal' }).count(), count)
    assert.equal(await page.getByText('refused: the server is read-only').count(), 1 - count)
    assert.deepEqual(errors, [])
  }
})

test('the pages use the configured id field', { skip: withoutBrowser }, async (t) => {
  const sensors = [
    { key: 'one', mac: 'A1', timestamp: '2026-11-20T12:00:00' },
    { key: 'two', mac: 'B2' },
  ]
  const server = await startProgram(t, { data: { sensors }, flags: ['--DataStore.IdField', 'key'] })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=sensors`)
  await page.locator('#table').getByRole('link', { name: 'one' }).click()
  await page.locator('#item h2').getByText('one').waitFor()
  await page.goto(`${server.url}/sensors.html`)
  await page.getByText('2 sensors').first().waitFor()
  await page.locator('#state[data-state=live]').waitFor()
  await server.fetch('/api/sensors/two', { method: 'DELETE' })
  await page.getByText('1 sensor').first().waitFor()
  assert.deepEqual(errors, [])
})

test('on a phone a single object leaves the way to the other collections open', {
  skip: withoutBrowser,
}, async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1, title: 'one' }], profile: { name: 'typicode' } } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=profile`)
  await page.setViewportSize({ width: 390, height: 800 })
  await page.getByText('typicode').waitFor()
  await page.locator('#names').getByText('posts').click()
  await page.locator('#table').getByText('one').waitFor()
  assert.deepEqual(errors, [])
})

test('readings that are few and old are shown over the time that they take', { skip: withoutBrowser }, async (t) => {
  const mac = 'E1:09:5C:D2:77:40'
  const first = Date.now() - 3 * 24 * 3_600_000
  const sensordatas = Array.from({ length: 6 }, (_, id) => {
    return { id, mac, data: { temperature: id }, timestamp: new Date(first + id * 600_000).toISOString() }
  })
  const server = await startProgram(t, { data: { sensors: [{ ...sensordatas[5], id: mac }], sensordatas } })
  const { page } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText('6 readings').waitFor()
  const whole = (await page.locator('.when').textContent()) ?? ''
  const [from, to] = [...whole.matchAll(/(\d\d):(\d\d)(?= –|\. )/g)].map(([, h, m]) => Number(h) * 60 + Number(m))
  const minutes = ((to ?? 0) - (from ?? 0) + 1440) % 1440
  assert.ok(minutes >= 50 && minutes < 60, whole)
})

test('while the server takes no writes, the pages show its data and say so', { skip: withoutBrowser }, async (t) => {
  const server = await startProgram(t, { data: { things: [{ id: 'one' }] } })
  const { page } = await openPage(t, 'about:blank')
  const health = (await (await server.fetch('/health')).json()) as { journal: object }
  const body = { ...health, status: 'unavailable', journal: { ...health.journal, writable: false } }
  await page.route('**/health', (route) => route.fulfill({ status: 503, json: body }))
  await page.goto(`${server.url}/collections.html`)
  await page.locator('#state[data-state=live]').waitFor()
  await page.locator('#table th').getByText('one').waitFor()
  await page.goto(`${server.url}/journal.html`)
  await page.locator('#health').getByText('Takes no writes').waitFor()
  await page.locator('#health').getByText('refused').waitFor()
})

test('a page that opens while /health is busy or out of reach connects later', { skip: withoutBrowser }, async (t) => {
  const server = await startProgram(t, { data: {}, flags: authentication(['token']) })
  const { page } = await openPage(t, 'about:blank')
  await page.route('**/health', (route) => route.fulfill({ status: 503, json: {} }), { times: 2 })
  await page.goto(`${server.url}/`)
  await page.locator('#state:text-is("Not signed in")').waitFor()
  await page.locator('#account').getByText('Sign in').waitFor()

  await page.route('**/health', (route) => route.abort())
  await page.reload()
  await page.locator('#state[data-state=gone]').waitFor()
  await page.unroute('**/health')
  await page.locator('#state:text-is("Not signed in")').waitFor()
})

test('on a phone the sign-in dialog shows every scheme', { skip: withoutBrowser }, async (t) => {
  const server = await startProgram(t, { data: {}, flags: authentication(['token', 'basic', 'apikey']) })
  for (const path of ['/', '/sensors.html', '/journal.html']) {
    const { page } = await openPage(t, server.url + path, { viewport: { width: 320, height: 640 } })
    await page.locator('#account').click()
    const form = page.locator('dialog form')
    await form.getByRole('button', { name: 'API key' }).waitFor()
    assert.ok(await form.evaluate((one) => one.scrollWidth <= one.clientWidth), path)
  }
})

for (const { path, request, element } of FIRST) {
  test(`${path} asks for its first data beside its script, and for nothing twice`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    const { page, errors } = await openPage(t, 'about:blank')
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url().slice(server.url.length + 1)))
    // The script comes when the first answers are there.
    const answers = ['**/health', request].map((url) => page.waitForResponse(url))
    await page.route('**/assets/*.js', async (route) => {
      await Promise.all(answers)
      await route.continue()
    })
    await page.goto(server.url + path)
    await page.locator('#state[data-state=live]').waitFor()
    const data = asked.filter((url) => !url.startsWith('socket.io'))
    assert.deepEqual(data, [...new Set(data)])
    assert.deepEqual(errors, [])
  })

  test(`${path} asks for no data before somebody signed in, and shows it then`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE, flags: authentication(['apikey']) })
    const { page, errors } = await openPage(t, server.url + path)
    await page.locator('#state[data-state=refused]').waitFor()
    assert.deepEqual(errors, [])
    await page.locator('#account').click()
    await page.getByLabel('API key').fill(keyOf('reader'))
    await page.locator('dialog').getByRole('button', { name: 'Sign in' }).click()
    await page.locator('#state[data-state=live]').waitFor()
    await page.locator(element).first().waitFor()
    assert.deepEqual(errors, [])
  })
}

test('under a policy that allows no script within the HTML, the pages ask for their data later', options, async (t) => {
  const policy = "default-src 'self'; style-src 'unsafe-inline'; img-src data:"
  const server = await startProgram(t, { data: SAMPLE, flags: ['--Http.ContentSecurityPolicy', policy] })
  for (const { path, element } of FIRST) {
    const { page } = await openPage(t, server.url + path)
    await page.locator(element).first().waitFor()
    assert.equal(await page.evaluate('globalThis.early'), undefined, path)
  }
})
