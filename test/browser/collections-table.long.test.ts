import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { authentication, passwordOf } from '../support/authentication.ts'
import { barriers, openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { json, startProgram } from '../support/server.ts'

const options = { skip: withoutBrowser }
const POSTS = [
  { id: 1, title: 'one', status: 'draft', likes: 3 },
  { id: 2, title: 'two', status: 'draft', likes: 5 },
  { id: 3, title: 'three', status: 'published', likes: 8 },
  { id: 4, title: 'four', status: 'published' },
]
const COMMENTS = [
  { id: 1, postId: 1, text: 'first' },
  { id: 2, postId: 1, text: 'second' },
  { id: 3, postId: 3, text: 'third' },
]

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const row = (id: number) => `#table tbody tr:has(th a:text-is("${id}"))`
const cell = (id: number, name: string) => `${row(id)} td[data-name="${name}"]`
const retype = async (page: Page, text: string) => {
  await page.keyboard.press('Control+A')
  await page.keyboard.type(text)
}
const rowCount = (page: Page) => page.locator('#table tbody tr').count()

async function open(t: TestContext, data: object, query: string, flags: readonly string[] = []) {
  const server = await startProgram(t, { data, flags })
  const opened = await openPage(t, `${server.url}/collections.html?${query}`)
  await live(opened.page)
  return { server, ...opened }
}

test('a cell is edited with Enter or F2, keeps the type of its value, and Esc cancels', options, async (t) => {
  const { server, page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.locator(cell(1, 'title')).click()
  await page.keyboard.press('F2')
  await page.keyboard.type(' and')
  await page.keyboard.press('Enter')
  await page.locator(`${cell(1, 'title')}:text-is("one and")`).waitFor()
  await page.keyboard.press('F2')
  await retype(page, 'uno')
  await page.keyboard.press('Enter')
  await page.locator(`${cell(1, 'title')}:text-is("uno")`).waitFor()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await retype(page, '4.5')
  await page.keyboard.press('Enter')
  await page.locator(`${cell(1, 'likes')}:text-is("4.5")`).waitFor()
  assert.deepEqual(await (await server.fetch('/api/posts/1')).json(), { ...POSTS[0], title: 'uno', likes: 4.5 })
  await page.keyboard.press('Enter')
  await retype(page, 'oops')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('This is not JSON').waitFor()
  assert.deepEqual(await barriers(page), [])
  await page.keyboard.press('Escape')
  await page.locator(`${cell(1, 'likes')}:text-is("4.5")`).waitFor()
  await until('the focus', () => page.evaluate<boolean>('document.activeElement.dataset.name === "likes"'))
  await page.locator(cell(4, 'likes')).dblclick()
  await page.keyboard.type('7')
  await page.keyboard.press('Enter')
  await page.locator(`${cell(4, 'likes')}:text-is("7")`).waitFor()
  assert.deepEqual(errors, [])
})

test('an edit of a cell that somebody else has changed is refused beside the cell', options, async (t) => {
  const { server, page } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.locator(cell(2, 'title')).dblclick()
  await server.fetch('/api/posts/2', json('PATCH', { title: 'zwei' }))
  await page.keyboard.type('deux')
  await page.keyboard.press('Enter')
  await page
    .locator(`${row(2)} [role=alert]`)
    .getByText('Somebody else has changed it')
    .waitFor()
  await page.keyboard.press('Escape')
  await page.locator(`${cell(2, 'title')}:text-is("zwei")`).waitFor()
})

test('selected rows are deleted, and Undo brings them back', options, async (t) => {
  const { server, page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.getByLabel('Select 1', { exact: true }).check()
  await page.getByLabel('Select 3', { exact: true }).check()
  await page.getByRole('button', { name: 'Delete 2 items' }).click()
  await page.getByText('2 items deleted.').waitFor()
  await until('two rows', async () => (await rowCount(page)) === 2)
  await until('the focus', () => page.evaluate<boolean>('document.activeElement.closest("#table") !== null'))
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Undone by').waitFor()
  await until('all rows', async () => (await rowCount(page)) === 4)
  assert.deepEqual(await (await server.fetch('/api/posts')).json(), POSTS)
  await page.getByLabel('Select all rows of this page').check()
  await page.getByRole('button', { name: 'Delete 4 items' }).waitFor()
  assert.deepEqual(errors, [])
})

test('an undo of a deletion does not overwrite what somebody writes at the same moment', options, async (t) => {
  const { server, page } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.getByLabel('Select 1', { exact: true }).check()
  await page.getByLabel('Select 3', { exact: true }).check()
  await page.getByRole('button', { name: 'Delete 2 items' }).click()
  await page.route('**/admin/restore', async (route) => {
    if (!route.request().postDataJSON().dryRun) {
      await server.fetch('/admin/restore', json('POST', { collection: 'posts', id: 3, to: 5 }))
      await server.fetch('/api/posts/3', json('PATCH', { title: 'drei' }))
    }
    await route.continue()
  })
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Something of it has changed since.').waitFor()
  assert.deepEqual(await (await server.fetch('/api/posts/3')).json(), { ...POSTS[2], title: 'drei' })
})

test('deleting a collection leads to the first one', options, async (t) => {
  const { page, errors } = await open(t, { posts: POSTS, comments: COMMENTS }, 'collection=posts')
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('button', { name: 'Delete the collection' }).click()
  await page.locator('#collection:text-is("comments")').waitFor()
  await page.locator(cell(1, 'text')).waitFor()
  assert.equal(await page.locator('#problem').count(), 0)
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator('#names').getByText('posts').waitFor()
  assert.deepEqual(
    errors.filter((error) => !error.includes('404')),
    [],
  )
})

test('a writer who cannot undo a deletion is asked before it', options, async (t) => {
  const server = await startProgram(t, { data: { posts: POSTS }, flags: authentication(['basic']) })
  const { page } = await openPage(t, `${server.url}/collections.html?collection=posts&item=2`)
  const credentials = JSON.stringify({ username: 'writer', password: passwordOf('writer') })
  await page.evaluate(`sessionStorage.setItem('recollect.session /', ${JSON.stringify(credentials)})`)
  await page.reload()
  const remove = page.locator('#item').getByRole('button', { name: 'Delete' })
  const asked: string[] = []
  page.once('dialog', (dialog) => {
    asked.push(dialog.message())
    void dialog.dismiss()
  })
  await remove.click()
  page.once('dialog', (dialog) => void dialog.accept())
  await remove.click()
  assert.deepEqual(asked, ['Delete 1 item? Only an admin can bring it back.'])
  await page.getByText('1 item deleted.').waitFor()
  await page.locator(row(2)).waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('button', { name: 'Undo' }).count(), 0)
})

test('a file is shown before it is imported, and rejected rows are listed', options, async (t) => {
  const flags = ['--Api.ClientIdsOnPost', 'true']
  const { server, page, errors } = await open(t, { things: [{ id: 1, n: 1 }] }, 'collection=things', flags)
  const choose = (name: string, text: string) =>
    page.getByLabel('File to import').setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })
  await choose('more.csv', 'id,name\n2,"a, b"\n1,c\n')
  const dialog = page.getByRole('dialog', { name: 'Import more.csv' })
  await dialog.getByText('Up to 2 items').waitFor()
  await dialog.getByText('2,"a, b"').waitFor()
  assert.deepEqual(await barriers(page), [])
  await dialog.getByRole('button', { name: 'Import' }).click()
  await dialog.getByText('1 item rejected').waitFor()
  await dialog.getByText('Line 3:').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.locator('#table td:text-is("a, b")').waitFor()

  await choose('rooms.json', '[{"name": "cellar"}, {"name": "attic"}]')
  await page.getByLabel('Into the collection').fill('rooms')
  await page.getByText('2 items (').getByText('and the collection, too').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click()
  await page.locator('#table td:text-is("attic")').waitFor()
  assert.deepEqual(await (await server.fetch('/api/rooms?fields=name')).json(), [{ name: 'cellar' }, { name: 'attic' }])
  await choose('wrong.json', '[1')
  await page.getByText('wrong.json cannot be imported').waitFor()
  assert.deepEqual(errors, [])
})

test('a file that is dropped on the page is shown before it is imported', options, async (t) => {
  const { page } = await open(t, {}, '')
  await page.getByText('There are no collections yet.').waitFor()
  await page.evaluate(`(() => {
    const data = new DataTransfer()
    data.items.add(new File(['{"name": "cellar"}\\n{"name": "attic"}'], 'rooms.ndjson'))
    for (const type of ['dragover', 'drop']) dispatchEvent(Object.assign(new Event(type), { dataTransfer: data }))
  })()`)
  await page.getByRole('dialog').getByText('2 items').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click()
  await page.locator('#table td:text-is("attic")').waitFor()
})

test('a page of thousands of rows has few elements, and the keyboard reaches its last row', options, async (t) => {
  const things = Array.from({ length: 6000 }, (_, id) => ({ id, name: `thing ${id}`, n: id % 7 }))
  const { page, errors } = await open(t, { things }, 'collection=things&query=pageSize%3D5000')
  await page.getByText('1–5,000 of 6,000').waitFor()
  await page.locator(`${row(0)} a`).focus()
  await page.locator('#table').evaluate((table) => table.scrollTo(0, table.scrollHeight))
  await page.locator(row(4999)).waitFor()
  await page.locator(`${row(4999)} a`).focus()
  await page.keyboard.press('PageUp')
  await page.keyboard.press('ArrowUp')
  assert.equal(await page.evaluate('document.activeElement.textContent'), '4978')
  // Keys that come faster than a slow processor draws the rows lose neither the focus nor a step.
  const session = await page.context().newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate: 8 })
  for (const [keys, wanted] of [
    [['Control+Home', 'PageDown', 'PageDown', 'PageDown', 'ArrowDown'], '61'],
    [['Control+End', 'PageUp', 'End', 'Home', 'ArrowRight'], '4979'],
  ] as const) {
    for (const key of keys) await page.keyboard.press(key)
    await until(`the focus in row ${wanted}`, () =>
      page.evaluate<boolean>(`document.activeElement.textContent === '${wanted}'`),
    )
  }
  await session.send('Emulation.setCPUThrottlingRate', { rate: 1 })
  assert.ok(Number(await page.evaluate('document.getElementsByTagName("*").length')) < 1500)
  assert.equal(await page.locator('#table [tabindex="0"]').count(), 1)
  assert.deepEqual(errors, [])
})

test('an item of sixty fields says which columns are not shown, and chosen columns are kept', options, async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`field${index}`, index]))
  const { page, errors } = await open(t, { wide: [{ id: 1, ...wide }] }, 'collection=wide')
  await page.getByText('46 columns not shown: field14, field15, field16…').waitFor()
  await page.getByRole('button', { name: 'Columns' }).click()
  const names = await page.getByRole('group', { name: 'Columns' }).locator('label').allTextContents()
  assert.deepEqual(
    names.slice(0, 3).map((name) => name.trim()),
    ['field0', 'field1', 'field2'],
  )
  await page.getByLabel('field59').check()
  await page.getByLabel('field0', { exact: true }).uncheck()
  await page.keyboard.press('Escape')
  await page.locator(cell(1, 'field59')).waitFor()
  await page.reload()
  await page.locator(cell(1, 'field59')).waitFor()
  assert.equal(await page.locator(cell(1, 'field0')).count(), 0)
  assert.deepEqual(errors, [])
})

test('a value that refers to an item leads to it', options, async (t) => {
  const { page, errors } = await open(t, { posts: POSTS, comments: COMMENTS }, 'collection=comments')
  await page.locator(row(3)).getByRole('link', { name: 'posts/3' }).click()
  await page.locator('#item .json').getByText('"three"').waitFor()
  assert.deepEqual(errors, [])
})

test('the values of a field with few of them filter with a click', options, async (t) => {
  const { page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.getByText('Values', { exact: true }).click()
  const values = page.getByRole('group', { name: 'Values of status' })
  await values.getByRole('button', { name: 'published 2' }).click()
  await until('the matching rows', async () => (await rowCount(page)) === 2)
  assert.deepEqual(await values.getByRole('button').allTextContents(), ['draft2', 'published2'])
  assert.deepEqual(await barriers(page), [])
  await values.getByRole('button', { name: 'published 2' }).click()
  await until('all rows', async () => (await rowCount(page)) === 4)
  assert.deepEqual(errors, [])
})

test('an aggregate has its own columns and rows, and a hint of the server is shown', options, async (t) => {
  const { page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  const ask = async (text: string) => {
    await page.getByLabel('Query').fill(text)
    await page.getByLabel('Query').press('Enter')
  }
  await ask('aggregate=count&groupBy=status')
  await page.locator('#total:text-is("2 rows")').waitFor()
  assert.deepEqual(await page.locator('#table thead th').allTextContents(), ['status', 'count'])
  assert.deepEqual(await page.locator('#table thead th.right').allTextContents(), ['count'])
  await page.getByRole('button', { name: 'Remove the filter aggregate' }).click()
  await page.getByRole('button', { name: 'Remove the filter groupBy' }).click()
  await page.locator('#total:text-is("4 items")').waitFor()
  await ask('titel=one')
  await page.getByText('did you mean "title"?').waitFor()
  assert.deepEqual(
    errors.filter((error) => !error.includes('400')),
    [],
  )
})

test('a search that takes long is seen to be running, and the next one does not wait for it', options, async (t) => {
  const { page } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.locator(row(1)).waitFor()
  await page.route(/q=slow/, () => {})
  const query = page.getByLabel('Query')
  await query.fill('slow')
  await query.press('Enter')
  await page.locator('#total:text-is("Searching…")').waitFor()
  await page.getByRole('button', { name: 'contains “slow”', exact: true }).click()
  await query.fill('three')
  await query.press('Enter')
  await page.locator('#total:text-is("1 item")').waitFor()
})

test('the rows of a collection that the address names do not wait for the numbers of items', options, async (t) => {
  const server = await startProgram(t, { data: { posts: POSTS } })
  const { page } = await openPage(t, 'about:blank')
  await page.route(/count=true/, () => {})
  await page.goto(`${server.url}/collections.html?collection=posts`)
  await page.locator(row(4)).waitFor()
})

test('in the past nothing can be edited, and what differs has the value of today beside it', options, async (t) => {
  const { server, page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  const position = Number((await server.fetch('/api/posts')).headers.get('Journal-Position'))
  await server.fetch('/api/posts/1', json('PATCH', { title: 'uno' }))
  await server.fetch('/api/posts/2', { method: 'DELETE' })
  await page.goto(`${server.url}/collections.html?collection=posts&item=1&at=${position}`)
  await page
    .locator(`${cell(1, 'title')}.differs`)
    .getByText('one now uno')
    .waitFor()
  await page
    .locator(`${row(2)}.differs`)
    .getByText('now gone')
    .waitFor()
  await page.locator('#names .differs').getByText('now 3').waitFor()
  await page.locator('#item').getByText('Changed since').waitFor()
  for (const name of ['New item', 'Edit', 'Delete', 'New collection'])
    assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name)
  await page.locator(cell(1, 'title')).dblclick()
  assert.equal(await page.locator('#table input').count(), 0)
  assert.deepEqual(await barriers(page), [])
  assert.deepEqual(errors, [])
})

test('collections are created, and deleted with a way back', options, async (t) => {
  const { server, page } = await open(t, {}, '')
  await page.getByText(`curl ${server.url}/api/notes`).waitFor()
  await page.getByRole('button', { name: 'New collection' }).click()
  await page.getByLabel('Name').fill('notes')
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByText('No items yet.').waitFor()
  await server.fetch('/api/notes', json('POST', { text: 'Hello' }))
  await page.locator('#table td:text-is("Hello")').waitFor()
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('button', { name: 'Delete the collection' }).click()
  await page.getByText('notes with 1 item deleted.').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator('#table td:text-is("Hello")').waitFor()
})

test('a query is copied as curl and as JavaScript', options, async (t) => {
  const { server, page, errors } = await open(t, { posts: POSTS }, 'collection=posts&query=status%3Ddraft')
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  const copied = async (name: string): Promise<string> => {
    await page.getByRole('button', { name: 'Export' }).click()
    await page.getByRole('button', { name, exact: true }).click()
    await page.getByText('Copied.').last().waitFor()
    return page.evaluate<string>('navigator.clipboard.readText()')
  }
  assert.equal(await copied('Copy as curl'), `curl '${server.url}/api/posts?status=draft&pageSize=50'`)
  await until('the script', async () => (await copied('Copy as JavaScript')).startsWith('const response = await'))
  await until('the rows', async () => (await copied('Copy rows as CSV')).startsWith('id,title,status,likes\r\n1,one'))
  assert.deepEqual(errors, [])
})

test('Esc closes the item, and the focus returns to its row', options, async (t) => {
  const { page, errors } = await open(t, { posts: POSTS }, 'collection=posts')
  await page.locator(`${row(2)} a`).focus()
  await page.keyboard.press('Enter')
  await page.locator('#item .json').getByText('"two"').waitFor()
  assert.equal(await page.evaluate('document.activeElement.id'), 'item')
  await page.keyboard.press('Escape')
  await page.locator('#item').waitFor({ state: 'detached' })
  await until('the focus', () => page.evaluate<boolean>('document.activeElement.textContent === "2"'))
  assert.deepEqual(errors, [])
})

test('an item returns to an earlier value from its history', options, async (t) => {
  const { server, page, errors } = await open(t, { posts: POSTS }, 'collection=posts&item=1')
  await server.fetch('/api/posts/1', json('PATCH', { title: 'uno' }))
  await page.getByRole('button', { name: 'History' }).click()
  await page.locator('.timeline > li').nth(1).getByRole('button', { name: 'Restore this version…' }).click()
  const dialog = page.getByRole('dialog', { name: /^Restore the state of/ })
  await dialog.getByText('posts/1').last().waitFor()
  await dialog.getByRole('button', { name: 'Restore (1 event)' }).click()
  await page.locator(`${cell(1, 'title')}:text-is("one")`).waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator(`${cell(1, 'title')}:text-is("uno")`).waitFor()
  assert.deepEqual(errors, [])
})
