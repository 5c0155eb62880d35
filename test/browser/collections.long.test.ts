import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { barriers, holdBack, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, startProgram } from '../support/server.ts'

const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))
const options = { skip: withoutBrowser }

/** All rows of the tests are in view. */
const TALL = { viewport: { width: 1280, height: 3000 } }

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const row = (id: string): string => `#table tbody tr:has(th a:text-is(${JSON.stringify(id)}))`
const ids = (page: Page) => page.locator('#table tbody th').allTextContents()
const ask = async (page: Page, text: string) => {
  await page.getByLabel('Query').fill(text)
  await page.getByLabel('Query').press('Enter')
}
const line = (name: string): string => `#names a:has(.name:text-is(${JSON.stringify(name)}))`

for (const { name, ...look } of LOOKS) {
  test(`the collections page, ${name}: no error, no request to another host, accessible`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    const { page, errors, outside } = await openPage(t, `${server.url}/collections.html`, look)
    await live(page)
    await page.locator(row('DC:25:EF:B0:3A:11')).waitFor()
    assert.equal(await page.title(), 'sensors · Collections · Recollect')
    await page.locator(`${line('sensors')}:has-text("5")`).waitFor()
    await page.locator(`${line('sensordatas')}:has-text("30")`).waitFor()
    assert.deepEqual(
      await ids(page),
      SAMPLE.sensors.map((sensor: { id: string }) => sensor.id),
    )
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)

    await page.locator(`${row('DC:25:EF:B0:3A:11')} a`).click()
    await page.locator('#item .json').waitFor()
    await page.getByRole('button', { name: 'History' }).click()
    await page.locator('.timeline > li').waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)

    await page.goto(`${server.url}/collections.html?item=DC:25:EF:B0:3A:11&at=20`)
    await page.locator('.past #item .json').waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.deepEqual(errors, [])
    assert.deepEqual(outside, [])
  })
}

test('a change is shown and marked without a reload', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page, errors } = await openPage(t, `${server.url}/collections.html`)
  await live(page)
  await page.locator(row('DC:25:EF:B0:3A:11')).waitFor()
  await page.evaluate('globalThis.loaded = "once"')
  // A flash lasts a second, which may be shorter than the interval between two looks on a busy machine.
  await page.evaluate(`globalThis.flashed = new Set()
    new MutationObserver(() => {
      for (const one of document.querySelectorAll('#table .flash')) flashed.add(one.textContent)
    }).observe(document.getElementById('table'), { subtree: true, childList: true, attributes: true })`)

  await server.fetch('/api/sensors/DC:25:EF:B0:3A:11', json('PATCH', { data: { humidity: 99.5 } }))
  await page.locator(`${row('DC:25:EF:B0:3A:11')} td:text-is("99.5")`).waitFor()
  await until('the flash of the value', () => page.evaluate<boolean>("flashed.has('99.5')"))
  await server.fetch('/api/sensors', json('POST', { mac: 'new' }))
  await page.locator(row('0')).waitFor()
  await until('the flash of the row', () => page.evaluate<boolean>('[...flashed].some((text) => /^0.*new/.test(text))'))
  await page.locator(`${line('sensors')}:has-text("6")`).waitFor()
  await server.fetch('/api/sensors/0', { method: 'DELETE' })
  await page.locator(row('0')).waitFor({ state: 'detached' })
  await server.fetch('/api/rooms', json('POST', { name: 'cellar' }))
  await page.locator(`${line('rooms')}:has-text("1")`).waitFor()
  assert.equal(await page.evaluate('globalThis.loaded'), 'once')
  assert.deepEqual(errors, [])
})

test('filters, sort, page and selection are in the address, which restores them', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=sensordatas`, TALL)
  await page.locator(row('29')).waitFor()

  await ask(page, 'data.battery_gt=2990')
  await page.getByText('data.battery > 2990').waitFor()
  await page.locator('#table thead').getByRole('button', { name: 'data.temperature' }).click()
  await page.locator('#table th[aria-sort=ascending]').waitFor()
  await page.getByLabel('Items a page').selectOption('20')
  const query = 'data.battery_gt=2990&sort=data.temperature_asc&pageSize=20&page=1'
  const wanted = (await (await server.fetch(`/api/sensordatas?${query}`)).json()) as { id: number }[]
  await until('the rows that match', async () => (await page.locator('#table tbody tr').count()) === wanted.length)
  assert.deepEqual(
    await ids(page),
    wanted.map(({ id }) => String(id)),
  )
  const [first] = wanted
  await page.locator(`${row(String(first?.id))} a`).click()
  await page.locator('#item .json').waitFor()

  const again = await openPage(t, page.url(), TALL)
  await again.page.locator('#item .json').waitFor()
  await again.page.locator(`${row(String(first?.id))}[aria-current]`).waitFor()
  assert.deepEqual(await ids(again.page), await ids(page))
  const chips = (one: Page) => one.getByRole('list', { name: 'Filters' }).getByRole('listitem').allTextContents()
  assert.deepEqual(await chips(again.page), ['data.battery > 2990✕', 'sort = data.temperature_asc✕'])
  assert.deepEqual(await chips(page), await chips(again.page))

  await page.getByRole('button', { name: 'Remove the filter data.battery > 2990' }).click()
  await until('a whole page of rows', async () => (await page.locator('#table tbody tr').count()) === 20)
  await page.getByRole('button', { name: 'Last page' }).click()
  await page.getByText('21–30 of 30').waitFor()
  await page.goBack()
  await page.getByText('1–20 of 30').waitFor()
  assert.deepEqual([...errors, ...again.errors], [])
})

test(
  'an item can be created, changed, patched, deleted and restored, and schema errors are shown',
  options,
  async (t) => {
    const settings = join(await temporaryDirectory(t), 'settings.json')
    const schema = { type: 'object', properties: { mac: { type: 'string' } }, required: ['mac'] }
    await writeFile(settings, JSON.stringify({ Api: { Schemas: { sensors: schema } } }))
    const server = await startProgram(t, {
      data: { sensors: [] },
      flags: ['--settings', settings],
    })
    const { page, errors } = await openPage(t, `${server.url}/collections.html`)
    await live(page)
    const text = page.getByLabel('Item as JSON')
    const save = page.getByRole('button', { name: 'Save' })

    await page.getByRole('button', { name: 'New item' }).click()
    await text.fill('{"mac": 7')
    await page.getByText('Not JSON yet').waitFor()
    await text.fill('{"name": "x", "mac": 7}')
    await save.click()
    await page.getByText('must be string').waitFor()
    await page.getByRole('button', { name: '/mac' }).click()
    assert.equal(await page.evaluate('document.activeElement.value.slice(document.activeElement.selectionStart)'), '7}')
    await text.fill('{"mac": "a", "name": "x"}')
    await save.click()
    await page.locator(row('0')).waitFor()

    await page.getByRole('button', { name: 'Edit' }).click()
    await text.fill('{"mac": "b"}')
    await save.click()
    await page.locator(`${row('0')} td:text-is("b")`).waitFor()
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('button', { name: 'Merge patch' }).click()
    await text.fill('{"more": true}')
    await save.click()
    await page.locator(`${row('0')} td:text-is("true")`).waitFor()

    await page.getByRole('button', { name: 'Edit' }).click()
    await server.fetch('/api/sensors/0', json('PUT', { mac: 'somebody else' }))
    await save.click()
    await page.getByText('Somebody else has changed it').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.locator('#item').getByText('"somebody else"').waitFor()

    // The page hears of the deletion before it has the response, and must not read the item then.
    await page.route('**/api/sensors/0', async (route) => {
      if (route.request().method() !== 'DELETE') return route.continue()
      const response = await route.fetch()
      await page.locator(row('0')).waitFor({ state: 'detached' })
      await route.fulfill({ response })
    })
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.locator(row('0')).waitFor({ state: 'detached' })
    assert.equal((await server.fetch('/api/sensors/0')).status, 404)
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.locator(row('0')).waitFor()
    assert.deepEqual(await (await server.fetch('/api/sensors/0')).json(), { id: 0, mac: 'somebody else' })
    // Refusals that the page asked for and shows: 422 and 412.
    assert.equal(errors.filter((error) => !/status of (422|412)/.test(error)).length, 0)
  },
)

test('a field whose name contains a dot can be sorted and filtered by', options, async (t) => {
  const dotted = [
    { id: 1, 'a.b': 2, a: { b: 8 } },
    { id: 2, 'a.b': 1, a: { b: 9 } },
  ]
  const server = await startProgram(t, { data: { dotted } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=dotted`)
  const isShown = (expected: string) => until(expected, async () => (await ids(page)).join(' ') === expected)
  for (const [field, expected] of [
    ['a\\.b', '2 1'],
    ['a.b', '1 2'],
  ] as const) {
    await page.locator('#table thead').getByRole('button', { name: field, exact: true }).click()
    await isShown(expected)
    assert.equal(await page.locator('#table th[aria-sort=ascending]').textContent(), field)
  }
  await ask(page, 'a\\.b=2')
  await isShown('1')
  assert.deepEqual(errors, [])
})

test('markup in the data is shown as text', options, async (t) => {
  const attack = '<img src="/x" onerror="globalThis.attacked = true"><script>globalThis.attacked = true</script>'
  const hostile = {
    id: attack,
    [attack]: attack,
    nested: { [attack]: [attack, null] },
    'a.b': '\u202eleft',
    tab: '\u0000',
  }
  const long = { id: 'W'.repeat(300), text: 'x'.repeat(10_240), ['k'.repeat(300)]: 1 }
  const server = await startProgram(t, { data: { [attack]: [hostile, long], '\u202eodd': [] } })
  for (const { name, ...look } of LOOKS.slice(1, 3)) {
    const { page, errors, outside } = await openPage(t, `${server.url}/collections.html`, look)
    await page.locator('#table tbody tr').nth(1).waitFor()
    assert.equal(await page.locator('#collection').textContent(), attack, name)
    await page.locator('#table tbody tr a').first().click()
    await page.locator('#item .json').waitFor()
    assert.ok((await page.locator('#item .json').textContent())?.includes(attack))
    assert.ok((await page.locator('#item .json').textContent())?.includes('\\u202eleft'))
    assert.equal(await page.locator('#names a .name').last().textContent(), '\\u202eodd')
    assert.equal(await overhang(page), 0, name)
    await page.goto(`${server.url}/collections.html?item=${long.id}`)
    await page.getByRole('button', { name: 'more characters' }).click()
    assert.ok((await page.locator('#item .json').textContent())?.includes(long.text))
    assert.equal(await overhang(page), 0, name)
    assert.equal(await page.locator('img:not(.brand img), main script').count(), 0)
    assert.equal(await page.evaluate('globalThis.attacked'), undefined)
    assert.deepEqual([...errors, ...outside], [])
  }
})

test('the page reports a missing collection and an invalid query', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page } = await openPage(t, `${server.url}/collections.html?collection=none`)
  await page.getByRole('alert').getByText('none').waitFor()
  await page.goto(`${server.url}/collections.html?query=page%3D0`)
  await page.getByRole('alert').getByText('page').waitFor()
  await ask(page, 'mac_startswith=F4')
  await page.getByText('1–1 of 1').waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
})

test('a single object is shown, edited and deleted without a table', options, async (t) => {
  const profile = { name: 'typicode', address: { city: 'Oslo' } }
  const server = await startProgram(t, { data: { posts: [{ id: 1, title: 'one' }], profile } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=profile`)
  await live(page)
  await page.locator('#item .json:has-text("Oslo")').waitFor()
  await page.locator(`${line('profile')}:has-text("{}")`).waitFor()
  assert.deepEqual(
    await Promise.all(['#table', '#query', '#pager', '#create'].map((part) => page.locator(part).isVisible())),
    [false, false, false, false],
  )
  assert.deepEqual(await barriers(page), [])

  await server.fetch('/api/profile', json('PATCH', { address: { city: 'Bergen' } }))
  await page.locator('#item .json:has-text("Bergen")').waitFor()
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.locator('#item textarea').fill('{"name": "Ada"}')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.locator('#item .json:has-text("Ada")').waitFor()
  assert.equal(await (await server.fetch('/api/profile')).text(), '{"name":"Ada"}')
  await page.getByRole('button', { name: 'History' }).click()
  await page.locator('.timeline > li:has-text("changed")').waitFor()

  await page.getByRole('button', { name: 'Delete' }).click()
  await page.locator(line('profile')).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator(line('profile')).waitFor()
  assert.equal(await (await server.fetch('/api/profile')).text(), '{"name":"Ada"}')
  await page.locator(line('posts')).click()
  await page.locator(row('1')).waitFor()
  assert.equal(await page.locator('#item').isVisible(), false)
  // The deleted item is requested once more.
  assert.deepEqual(
    errors.filter((error) => !error.includes('404')),
    [],
  )
})

test('all pages of a query result can be downloaded as CSV and NDJSON', options, async (t) => {
  const things = Array.from({ length: 120 }, (_, n) => ({ id: n, kind: n % 2 === 0 ? 'even' : 'odd' }))
  const server = await startProgram(t, { data: { things } })
  const { page, errors } = await openPage(
    t,
    `${server.url}/collections.html?collection=things&query=kind%3Dodd%26page%3D2`,
    TALL,
  )
  const downloaded = async (name: string) => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page
        .getByRole('button', { name: 'Export' })
        .click()
        .then(() => page.getByRole('button', { name, exact: true }).click()),
    ])
    return [
      download.suggestedFilename(),
      readFileSync(await within('the end of a download', download.path()), 'utf8'),
    ] as const
  }
  const [csvName, csv] = await downloaded('Download CSV')
  assert.equal(csvName, 'things.csv')
  const lines = csv.split('\r\n')
  assert.deepEqual([lines[0], lines[1], lines[60], lines.length], ['id,kind', '1,odd', '119,odd', 62])
  const [name, text] = await downloaded('Download NDJSON')
  const items = text.trimEnd().split('\n')
  assert.deepEqual([name, items[59], items.length], ['things.ndjson', '{"id":119,"kind":"odd"}', 60])
  await page.goto(`${server.url}/collections.html?collection=things&query=aggregate%3Dcount%26groupBy%3Dkind`)
  await page.locator('#total').waitFor()
  assert.equal((await downloaded('Download CSV'))[1], 'kind,count\r\neven,60\r\nodd,60\r\n')
  assert.deepEqual(errors, [])
})

test('rows without an id are all shown, and values, too', options, async (t) => {
  const things = ['a', 'b', null].flatMap((kind, n) => [
    { id: 2 * n, kind },
    { id: 2 * n + 1, kind },
  ])
  const server = await startProgram(t, { data: { things } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html`)
  for (const [query, first, count] of [
    ['fields=kind', ['a'], 6],
    ['aggregate=count&groupBy=kind', ['null', '2'], 3],
    ['distinct=kind', ['null'], 3],
  ] as const) {
    await page.goto(`${server.url}/collections.html?collection=things&query=${encodeURIComponent(query)}`)
    await page.locator('#table tbody tr').first().waitFor()
    assert.equal(await page.locator('#table tbody tr').count(), count, query)
    assert.deepEqual(await page.locator('#table tbody tr').first().locator('td, th').allTextContents(), first, query)
    await page.locator('#table tbody tr').first().click()
    assert.equal(new URL(page.url()).searchParams.get('item'), null)
  }
  assert.deepEqual(errors, [])
})

test('the pager shows and turns the pages of every kind of paging parameters', options, async (t) => {
  const server = await startProgram(t, { data: { things: Array.from({ length: 45 }, (_, id) => ({ id })) } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html`)
  const pager = page.locator('#pager > span')
  for (const query of [
    'skip=20&take=10',
    'offset=20&limit=10',
    '_start=20&_end=30',
    'page=3&per_page=10',
    '_page=3&_limit=10',
  ]) {
    await page.goto(`${server.url}/collections.html?collection=things&query=${encodeURIComponent(query)}`)
    await pager.getByText('21–30 of 45').waitFor()
    await page.getByRole('button', { name: 'Next page' }).click()
    await pager.getByText('31–40 of 45').waitFor()
  }
  await page.getByRole('button', { name: 'First page' }).click()
  await pager.getByText('1–10 of 45').waitFor()
  // Pressed before the first answer comes.
  const release = await holdBack(page, '**/api/things?*')
  for (let times = 0; times < 3; times++) await page.getByRole('button', { name: 'Next page' }).click()
  await release()
  await pager.getByText('31–40 of 45').waitFor()
  assert.deepEqual(errors, [])
})

test('the first collection is shown when it is created, and the next one when that is removed', options, async (t) => {
  const server = await startProgram(t, { data: {} })
  const { page } = await openPage(t, `${server.url}/collections.html`)
  await live(page)
  await page.getByText('There are no collections yet.').waitFor()
  await server.fetch('/api/first', json('POST', { name: 'one' }))
  await page.locator('#table td:text-is("one")').waitFor()
  await server.fetch('/api/second', json('POST', { name: 'two' }))
  await page.locator('#names').getByText('second').waitFor()
  await server.fetch('/api/first?all=true', { method: 'DELETE' })
  await page.locator('#table td:text-is("two")').waitFor()

  await page.goto(`${server.url}/collections.html?collection=second`)
  await live(page)
  await page.locator('#table td:text-is("two")').waitFor()
  await server.fetch('/api/second?all=true', { method: 'DELETE' })
  await page.getByText('There is no collection "second".').waitFor()
  await page.locator('#table td').waitFor({ state: 'detached' })
  assert.deepEqual([await page.locator('#total').textContent(), await page.locator('#pager *').count()], ['', 0])
})

test('a query that is typed and not sent yet survives changes of the items', options, async (t) => {
  const server = await startProgram(t, { data: { things: [{ id: 1, kind: 'odd' }] } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=things`, TALL)
  await live(page)
  const query = page.getByLabel('Query')
  await query.fill('odd')
  for (const id of [2, 3]) {
    await server.fetch('/api/things', json('POST', { kind: 'odd' }))
    await page.locator(row(String(id))).waitFor()
  }
  assert.equal(await query.inputValue(), 'odd')
  await query.press('Enter')
  await page.waitForURL(/query=q%3Dodd/)
  await ask(page, 'id=2')
  await page.locator(row('3')).waitFor({ state: 'detached' })
  assert.equal(await query.inputValue(), '')
  await page.goBack()
  await page.goBack()
  await page.waitForURL(/things$/)
  await page.locator(row('3')).waitFor()
  assert.deepEqual(errors, [])
})

test('unsaved input survives other changes of the item and a reload', options, async (t) => {
  const server = await startProgram(t, { data: { things: [{ id: 1, n: 1 }] } })
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=things&item=1`)
  await live(page)
  const text = page.getByLabel('Item as JSON')
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByRole('button', { name: 'Merge patch' }).click()
  await text.fill('{"n":')
  await page.reload()
  await page.getByText('This was typed before').waitFor()
  assert.equal(await text.inputValue(), '{"n":')
  assert.equal(await page.getByRole('button', { name: 'Merge patch' }).getAttribute('aria-pressed'), 'true')
  await text.fill('{"n": 2}')
  await page.getByRole('button', { name: 'Replace' }).click()
  assert.equal(await text.inputValue(), '{"n": 2}')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.locator(`${row('1')} td:text-is("2")`).waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'Edit' }).click()
  assert.equal(await text.inputValue(), '{\n  "id": 1,\n  "n": 2\n}')

  // Input about an item that somebody else has changed is not overwritten.
  await text.fill('{"n": 3}')
  await server.fetch('/api/things/1', json('PUT', { n: 4 }))
  await page.reload()
  await page.getByText('This was typed before').waitFor()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Somebody else has changed it').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.locator(`${row('1')} td:text-is("4")`).waitFor()
  await page.reload()
  await page.locator('#item').getByRole('button', { name: 'Edit' }).waitFor()

  await page.getByRole('button', { name: 'New item' }).click()
  await text.fill('{"n": 5')
  await page.reload()
  await page.getByRole('button', { name: 'New item' }).click()
  assert.equal(await text.inputValue(), '{"n": 5')
  assert.deepEqual(
    errors.filter((error) => !error.includes('status of 412')),
    [],
  )
})
