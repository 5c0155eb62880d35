import assert from 'node:assert/strict'
import { cp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, plainSegments, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'

const bad: [string, string | Buffer, RegExp][] = [
  ['text that is no JSON', '{"a": [{"id": 1},\n  {"id": 2} {"id": 3}]}', /line 2, column 13/],
  ['an empty file', '', /data file/i],
  ['a trailing comma', '{"a": [],}', /line 1, column 10/],
  ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /UTF-8/],
  ['a root that is an array', '[]', /root/],
  ['a root that is null', 'null', /root/],
  ['a collection that is text', '{"a": "x"}', /\/a\b/],
  ['an item that is a number', '{"a": [{}, 1]}', /\/a\/1\b/],
  ['an item that is null', '{"a": [null]}', /\/a\/0\b/],
  ['two items of one id', '{"a": [{"id": 1}, {"id": 2}, {"id": 1}]}', /\/a\/2\/id.*"1"/],
  ['ids that are one key', '{"a": [{"id": 1}, {"id": "1"}]}', /\/a\/1\/id.*"1"/],
  ['an id that is null', '{"a": [{"id": null}]}', /\/a\/0\/id/],
  ['an id that is empty', '{"a": [{"id": ""}]}', /\/a\/0\/id/],
  ['an id with a lone surrogate', '{"a": [{"id": "\\ud800"}]}', /\/a\/0\/id/],
  ['a collection without a name', '{"": []}', /name/],
  ['a name with a lone surrogate', '{"\\udc00": []}', /name/],
  ['a __proto__ member', '{"a": [{"b": {"__proto__": 1}}]}', /\/a\/0\/b\/__proto__/],
  ['a number without end', '{"a": [{"b": [1e999]}]}', /\/a\/0\/b\/0/],
  ['an integer that would be rounded', '{"a": [{"b": 9007199254740993}]}', /\/a\/0\/b/],
  ['a number that becomes 0', '{"a": [{"b": [0, 1e-400]}]}', /\/a\/0\/b\/1/],
  ['nesting without end', `{"a": [{"b": ${'['.repeat(101)}${']'.repeat(101)}}]}`, /\/a\/0\/b/],
]

test('an invalid data file is rejected with the place and exit code 2, and nothing is created', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const [what, text, place] of bad) {
    await writeFile(join(directory, 'db.json'), text)
    const { code, stdout, stderr } = await runToEnd(t, directory, ['--file', 'db.json', '--urls', 'http://127.0.0.1:0'])
    assert.equal(code, 2, `${what}: ${stderr}`)
    assert.match(stderr, place, what)
    assert.equal(stdout, '', what)
    assert.doesNotMatch(stderr, /\n\s+at /, `${what}: no stack`)
    assert.deepEqual(await readdir(directory), ['db.json'], what)
  }
})

test('large first items without ids are rejected beside the highest integer id, as a text may spell the next one', async (t) => {
  const directory = await temporaryDirectory(t)
  const items = [{ id: 2 ** 52 }, { id: String(2 ** 52 + 1), name: 'text' }, { name: 'no id yet' }]
  await writeFile(join(directory, 'db.json'), JSON.stringify({ a: items }))
  const flags = ['--file', 'db.json', '--urls', 'http://127.0.0.1:0', '--DataFile.EditBytes']
  const large = await runToEnd(t, directory, [...flags, '10'])
  assert.notEqual(large.code, 0)
  assert.match(large.stderr, /At \/a: write an "id" in each item/)
  const server = await startProgram(t, { directory })
  const response = await server.fetch('/api/a')
  assert.deepEqual(await response.json(), [...items.slice(0, 2), { id: 2 ** 52 + 2, name: 'no id yet' }])
})

const DATA = { things: [{ id: 0, name: 'Ann' }] }
const SEGMENT = '00000000000000000001.ndjson'
const FLAGS = ['--file', 'db.json', '--urls', 'http://127.0.0.1:0']

interface Event {
  readonly position: number
  readonly actor: string
  readonly type: string
  readonly id?: unknown
}

const journalOf = (server: RunningProgram) => join(server.directory, 'db.journal')

/** A server that has written ten items and was stopped: its head is 12. */
async function stopped(t: TestContext): Promise<RunningProgram> {
  const server = await startProgram(t, { data: DATA })
  for (let n = 0; n < 10; n++) assert.equal((await server.fetch('/api/things', json('POST', { n }))).status, 201)
  assert.equal(await server.stop(), 0)
  return server
}

async function idOf(server: RunningProgram): Promise<string> {
  const [header = ''] = (await readFile(join(journalOf(server), SEGMENT), 'utf8')).split('\n')
  return (JSON.parse(header) as { journal: string }).journal
}

/** Every file below a directory with its bytes: what a refused start must leave as it was. */
/** All files but those of the store, which can be built again. */
async function contents(directory: string): Promise<Map<string, string>> {
  const files = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const all = files.map(({ parentPath, name }) => join(parentPath, name)).sort()
  const paths = all.filter((path) => !path.includes('/db.journal/store/'))
  return new Map(await Promise.all(paths.map(async (path) => [path, await readFile(path, 'latin1')] as const)))
}

async function refusedStart(t: TestContext, server: RunningProgram): Promise<string> {
  const before = await contents(server.directory)
  const { code, stderr } = await runToEnd(t, server.directory, FLAGS)
  assert.equal(code, 1, stderr)
  assert.match(stderr, /--accept-journal/)
  assert.doesNotMatch(stderr, /\n\s+at /, 'no stack')
  assert.deepEqual(await contents(server.directory), before)
  return stderr
}

async function itemsOf(server: RunningProgram): Promise<unknown[]> {
  return (await (await server.fetch('/api/things')).json()) as unknown[]
}

async function eventsOf(server: RunningProgram): Promise<Event[]> {
  return (await (await server.fetch('/events?limit=1000')).json()) as Event[]
}

/** A start without the flag is well again, and makes no event. */
async function goesOn(t: TestContext, accepted: RunningProgram): Promise<void> {
  const events = await eventsOf(accepted)
  assert.equal(await accepted.stop(), 0)
  const again = await startProgram(t, { directory: accepted.directory })
  assert.deepEqual(await eventsOf(again), events)
}

test('a missing journal is rejected by name; --accept-journal starts a new one with the content of the file', async (t) => {
  const server = await stopped(t)
  const id = await idOf(server)
  const data = JSON.parse(await readFile(server.file, 'utf8')) as typeof DATA
  await rename(journalOf(server), join(server.directory, 'elsewhere'))
  const message = await refusedStart(t, server)
  assert.match(message, /there is no journal/)
  assert.ok(message.includes(id) && message.includes('12'), message)

  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.deepEqual(await itemsOf(accepted), data.things)
  assert.notEqual(await idOf(accepted), id)
  assert.deepEqual(
    (await eventsOf(accepted)).map(({ actor, type }) => [actor, type]),
    [['data-file', 'CollectionCreated'], ...Array(11).fill(['data-file', 'ItemCreated'])],
  )
  await goesOn(t, accepted)
})

test('an empty journal directory counts as a missing journal', async (t) => {
  const server = await stopped(t)
  await rm(join(journalOf(server), SEGMENT))
  await refusedStart(t, server)
})

test('a journal without its first segment is rejected as damaged, with or without --accept-journal', async (t) => {
  const server = await startProgram(t, { data: DATA, flags: plainSegments(1024) })
  for (let n = 0; n < 20; n++) assert.equal((await server.fetch('/api/things', json('POST', { n }))).status, 201)
  assert.equal(await server.stop(), 0)
  await rm(join(journalOf(server), SEGMENT))
  const before = await contents(server.directory)
  for (const flags of [FLAGS, [...FLAGS, '--accept-journal']]) {
    const { code, stderr } = await runToEnd(t, server.directory, flags)
    assert.equal(code, 1)
    assert.match(stderr, /the segment that begins with position 1 is missing/)
    assert.doesNotMatch(stderr, /there is no journal|accept-journal/)
    assert.deepEqual(await contents(server.directory), before)
  }
})

test('the journal of another file is rejected with both names; --accept-journal sets it aside', async (t) => {
  const server = await stopped(t)
  const other = await startProgram(t, { data: { things: [{ id: 99, name: 'other' }] } })
  await other.stop()
  const [own, foreign] = [await idOf(server), await idOf(other)]
  const data = JSON.parse(await readFile(server.file, 'utf8')) as typeof DATA
  await rm(journalOf(server), { recursive: true })
  await cp(journalOf(other), journalOf(server), { recursive: true })
  const before = await readFile(join(journalOf(server), SEGMENT))
  const message = await refusedStart(t, server)
  assert.ok(message.includes(own) && message.includes(foreign), message)

  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.deepEqual(await itemsOf(accepted), data.things)
  assert.ok(![own, foreign].includes(await idOf(accepted)))
  assert.deepEqual(await readFile(join(server.directory, 'db.journal.aside', SEGMENT)), before)
  assert.match(accepted.stderr(), /"level":40[^\n]*db\.journal is now \S+db\.journal\.aside, and a new one begins/)
  await goesOn(t, accepted)
})

test('a journal that lost its end is rejected with what is missing; when accepted, the file restores it', async (t) => {
  const server = await stopped(t)
  const data = JSON.parse(await readFile(server.file, 'utf8')) as typeof DATA
  const segment = join(journalOf(server), SEGMENT)
  const lines = (await readFile(segment, 'latin1')).split('\n')
  const kept = lines.slice(0, 1 + 1 + 4)
  await truncate(segment, kept.join('\n').length + 1)
  const message = await refusedStart(t, server)
  assert.match(message, /position 12\b/)
  assert.match(message, /events 7 to 12\b/)

  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.deepEqual(await itemsOf(accepted), data.things)
  assert.deepEqual(
    (await eventsOf(accepted)).slice(6).map(({ actor, type, id }) => [actor, type, id]),
    Array.from({ length: 6 }, (_, n) => ['data-file', 'ItemCreated', n + 5]),
  )
  await goesOn(t, accepted)
})

test('--accept-journal has no effect on a matching journal', async (t) => {
  const server = await stopped(t)
  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.equal((await eventsOf(accepted)).length, 12)
  assert.equal(await accepted.stop(), 0)
})

test('an accepted journal with an invalid file is served, and the file is merged when it is valid', async (t) => {
  const server = await stopped(t)
  const segment = join(journalOf(server), SEGMENT)
  const lines = (await readFile(segment, 'latin1')).split('\n')
  await truncate(segment, lines.slice(0, 6).join('\n').length + 1)
  const data = await readFile(server.file, 'utf8')
  await writeFile(server.file, data.slice(0, -20))
  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.equal((await itemsOf(accepted)).length, 5)
  await accepted.fetch('/api/things/0', json('PATCH', { since: true }))
  await writeFile(server.file, data)
  assert.equal((await accepted.fetch('/admin/reload', { method: 'POST' })).status, 200)
  const items = (await itemsOf(accepted)) as { since?: boolean }[]
  assert.equal(items.length, 11)
  assert.equal(items[0]?.since, true, 'what was written meanwhile was merged, not taken back')
})

test('a second server on the same file says so and exits, and the first continues', async (t) => {
  const server = await startProgram(t, { data: DATA })
  const { code, stdout, stderr } = await runToEnd(t, server.directory, FLAGS)
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(stderr, /db\.journal is in use by another process/)
  assert.equal((await server.fetch('/api/things', json('POST', {}))).status, 201)
  await server.stop('SIGKILL')
  const next = await startProgram(t, { directory: server.directory })
  await until('the item of before to be served', async () => (await itemsOf(next)).length === 2)
})

test('a second server on the same file with another journal is rejected, too', async (t) => {
  const server = await startProgram(t, { data: DATA })
  const { code, stderr } = await runToEnd(t, server.directory, [...FLAGS, '--journal', 'other.journal'])
  assert.equal(code, 1, stderr)
  assert.deepEqual((await readdir(server.directory)).sort(), ['.recollect', 'db.journal', 'db.json'])
})

test('a journal without the state file is accepted if the data file shows its end', async (t) => {
  const server = await stopped(t)
  await rm(join(server.directory, '.recollect', 'db.json.state'))
  const again = await startProgram(t, { directory: server.directory })
  assert.equal((await eventsOf(again)).length, 12)
  await goesOn(t, again)
})

test('a journal without the state file is rejected if it may have lost its end', async (t) => {
  const server = await stopped(t)
  await rm(join(server.directory, '.recollect', 'db.json.state'))
  const segment = join(journalOf(server), SEGMENT)
  const lines = (await readFile(segment, 'latin1')).split('\n')
  await truncate(segment, lines.slice(0, 1 + 1 + 4).join('\n').length + 1)
  await rm(join(journalOf(server), 'store'), { recursive: true })
  const data = JSON.parse(await readFile(server.file, 'utf8')) as typeof DATA
  assert.match(await refusedStart(t, server), /its state file is missing/)
  await writeFile(server.file, '{')
  assert.equal((await runToEnd(t, server.directory, FLAGS)).code, 2, 'an invalid file is not taken for one that fits')
  await writeFile(server.file, JSON.stringify(data))

  const accepted = await startProgram(t, { directory: server.directory, flags: ['--accept-journal'] })
  assert.deepEqual(await itemsOf(accepted), data.things)
  assert.equal((await eventsOf(accepted)).length, 12)
  await goesOn(t, accepted)
})
