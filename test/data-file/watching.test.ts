import assert from 'node:assert/strict'
import { lstat, mkdir, readdir, readFile, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FileWatcher } from '../../src/data-file/file-watcher.ts'
import { SimulatedClock, turns } from '../support/clock.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { headOf, send, sendJson } from '../support/requests.ts'
import { json, plainSegments, type RunningServer } from '../support/server.ts'
import { type OwnService, startHere, startServer } from '../support/service.ts'

const ANN = { id: 0, name: 'Ann' }
const BOB = { id: 1, name: 'Bob' }
const CAROL = { id: 2, name: 'Carol' }

async function startOn(t: TestContext, flags: readonly string[] = ['--watch']) {
  return startHere(t, { data: { people: [ANN] }, flags })
}

const textOf = (...people: readonly object[]) => JSON.stringify({ people })

async function serves(service: OwnService, ...people: readonly object[]): Promise<void> {
  await until('the edit to be merged', async () => {
    const { text } = await send(service.url, 'GET', '/api/people')
    return text === JSON.stringify(people)
  })
}

test('edits are merged however they are saved', async (t) => {
  const service = await startOn(t)
  await writeFile(service.file, textOf(ANN, BOB))
  await serves(service, ANN, BOB)

  await writeFile(`${service.file}.new`, textOf(BOB))
  await rename(`${service.file}.new`, service.file)
  await serves(service, BOB)

  await rm(service.file)
  await until('the file to be written again', () => readFile(service.file, 'utf8').catch(() => undefined))

  await writeFile(service.file, '{"people": [')
  await until('the mistake to be logged', () => service.log.some((line) => line.includes('not imported')))
  await writeFile(service.file, textOf(CAROL))
  await serves(service, CAROL)
})

test('an edit that is not valid is logged once, however often it is tried', async (t) => {
  const service = await startOn(t, [])
  const lines = () => service.log.filter((line) => line.includes('The data file is not imported')).length
  const reload = async () => (await sendJson(service.url, 'POST', '/admin/reload', {})).status
  for (const [text, expected] of [
    ['{"people": [', 1],
    ['{"people": 1}', 2],
  ] as const) {
    await writeFile(service.file, text)
    for (let again = 0; again < 3; again++) assert.equal(await reload(), 422)
    assert.equal(lines(), expected)
  }
  await writeFile(service.file, textOf(ANN))
  assert.equal(await reload(), 200)
  await writeFile(service.file, '{"people": 1}')
  assert.equal(await reload(), 422)
  assert.equal(lines(), 3)
})

test('a link that is swapped is noticed', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const [name, text] of Object.entries({ v1: textOf(ANN), v2: textOf(ANN, BOB) })) {
    await mkdir(join(directory, name))
    await writeFile(join(directory, name, 'db.json'), text)
  }
  await symlink('v1', join(directory, 'current'))
  const journal = join(directory, 'journal')
  const flags = ['--watch', '--journal', journal]
  const service = await startHere(t, { directory: join(directory, 'current'), flags })
  await symlink('v2', join(directory, 'new'))
  await rename(join(directory, 'new'), join(directory, 'current'))
  await serves(service, ANN, BOB)
})

test('writes of the server itself are no edits', async (t) => {
  const service = await startOn(t)
  const before = await headOf(service.url)
  for (const n of [1, 2, 3]) {
    await sendJson(service.url, 'PUT', '/api/people/0', { ...ANN, n })
    await until('the file to be written', async () => (await readFile(service.file, 'utf8')).includes(`"n": ${n}`))
  }
  await writeFile(service.file, textOf(BOB))
  await serves(service, BOB)
  // An edit of two events, after those of the three writes.
  assert.equal(await headOf(service.url), before + 5)
})

test('a read-only server says that it does not merge an edit', async (t) => {
  const service = await startOn(t, ['--read-only'])
  await writeFile(service.file, textOf(ANN, BOB))
  await until('the edit to be logged', () => service.log.some((line) => line.includes('The data file is not imported')))
  await serves(service, ANN)
})

/** A watcher of a file whose signature the test sets. */
async function watching(prepare: (watcher: FileWatcher) => void = () => {}) {
  const clock = new SimulatedClock()
  let signature: string | undefined = 'first'
  let reported = 0
  let stats = 0
  const files = {
    stat: async () => {
      stats++
      if (signature === undefined) throw Object.assign(new Error('simulated'), { code: 'EIO' })
      return { size: 1, signature, mode: 0o600, isFile: true }
    },
  }
  const settled = async () => void reported++
  const watcher = new FileWatcher({ files, path: '/data/db.json', schedule: clock.schedule, lookMs: 500, settled })
  prepare(watcher)
  await watcher.begin()
  const set = (value: string | undefined) => {
    signature = value
  }
  return { watcher, clock, set, reported: () => reported, stats: () => stats }
}

test('a file is looked at twice a second, and a change is reported once it stays the same', async () => {
  const { watcher, clock, set, reported, stats } = await watching()
  await clock.pass(2000)
  assert.deepEqual([reported(), stats()], [0, 5])
  for (let part = 0; part < 20; part++) {
    set(`part ${part}`)
    await clock.pass(150)
  }
  assert.equal(reported(), 0)
  await clock.pass(700)
  assert.equal(reported(), 1)
  await clock.pass(10_000)
  assert.equal(reported(), 1)
  watcher.close()
})

test('a file that cannot be reached for a while is reported, and looked at again', async () => {
  const { watcher, clock, set, reported } = await watching()
  set(undefined)
  await clock.pass(20_000)
  assert.equal(reported(), 1)
  set('second')
  await clock.pass(1000)
  assert.equal(reported(), 2)
  watcher.close()
})

test('a file that may have changed is reported, also before and while it is looked at', async () => {
  const { watcher, clock, reported, stats } = await watching((one) => one.changed())
  await clock.pass(200)
  assert.equal(reported(), 1)
  watcher.changed()
  assert.equal(watcher.isChanging, true)
  await clock.pass(200)
  assert.deepEqual([reported(), watcher.isChanging], [2, false])
  const before = stats()
  const passing = clock.pass(500)
  while (stats() === before) await new Promise<void>((resolve) => setImmediate(resolve))
  watcher.changed()
  await passing
  await clock.pass(200)
  assert.equal(reported(), 3)
  watcher.close()
})

test('a watcher that is closed looks no more, also if it is closed during a look', async () => {
  const { watcher, clock, set, reported, stats } = await watching()
  set('second')
  const passing = clock.pass(500)
  while (stats() === 1) await new Promise<void>((resolve) => setImmediate(resolve))
  watcher.close()
  await passing
  await turns()
  assert.equal(clock.waiting, 0)
  await clock.pass(10_000)
  assert.deepEqual([reported(), clock.waiting], [0, 0])
})

const EAGER = ['--Common.EagerDataReload', 'true']

/** Two directories, each with a data file, and what leads to the first: a link is swapped by a rename, as Kubernetes does. */
async function versions(t: TestContext) {
  const directory = await temporaryDirectory(t)
  for (const [name, things] of [
    ['v1', [ANN]],
    ['v2', [ANN, BOB]],
  ] as const) {
    await mkdir(join(directory, name))
    await writeFile(join(directory, name, 'db.json'), JSON.stringify({ things }))
  }
  const swap = async (link: string, target: string) => {
    await symlink(target, join(directory, 'new-link'))
    await rename(join(directory, 'new-link'), join(directory, link))
  }
  return { directory, swap }
}

const SETUPS = [
  { what: 'the link of the file itself', file: 'db.json', links: { 'db.json': ['v1/db.json', 'v2/db.json'] } },
  { what: 'the link of a directory above the file', file: 'current/db.json', links: { current: ['v1', 'v2'] } },
  {
    what: 'the second of a chain of links',
    file: 'db.json',
    links: { '..data': ['v1', 'v2'], 'db.json': ['..data/db.json'] },
  },
] as const

const things = async (server: RunningServer) => (await server.fetch('/api/things')).json()

async function add(server: RunningServer, item: object): Promise<void> {
  assert.equal((await server.fetch('/api/things', json('POST', item))).status, 201)
}

async function shown(path: string): Promise<unknown> {
  return (JSON.parse(await readFile(path, 'utf8')) as { things: unknown }).things
}

/** The journal is not below a link. */
async function start(t: TestContext, directory: string, file: string, flags: readonly string[] = []) {
  const journal = join(directory, 'journal')
  return startServer(t, { directory: dirname(join(directory, file)), flags: ['--journal', journal, ...flags] })
}

for (const { what, file, links } of SETUPS) {
  for (const flags of [EAGER, []]) {
    test(`a swap of ${what} is an edit, merged ${flags === EAGER ? 'by itself' : 'by a reload'}`, async (t) => {
      const { directory, swap } = await versions(t)
      for (const [link, [target]] of Object.entries(links)) await swap(link, target)
      const server = await start(t, directory, file, flags)
      const second = Object.entries(links).find(([, targets]) => targets.length > 1) as [string, [string, string]]
      await swap(second[0], second[1][1])
      if (flags !== EAGER) {
        const response = await server.fetch('/admin/reload', { method: 'POST' })
        assert.equal(((await response.json()) as { events: number }).events, 1)
      }
      await until('Bob to be merged', async () => ((await things(server)) as unknown[]).length === 2)
      await add(server, { name: 'Carol' })
      const written = join(directory, 'v2', 'db.json')
      await until('the file of v2 to be written', async () => ((await shown(written)) as unknown[]).length === 3)
      // The new target is watched, too.
      await writeFile(written, JSON.stringify({ things: [{ ...ANN, name: 'Anna' }, BOB, CAROL] }))
      if (flags !== EAGER) await server.fetch('/admin/reload', { method: 'POST' })
      await until('Anna to be merged', async () =>
        (await (await server.fetch('/api/things/0')).text()).includes('Anna'),
      )
      assert.equal(await server.stop(), 0)
      assert.deepEqual(await shown(join(directory, 'v1', 'db.json')), [ANN])
      assert.deepEqual(await shown(written), [{ ...ANN, name: 'Anna' }, BOB, CAROL])
      assert.ok((await lstat(join(directory, second[0]))).isSymbolicLink())
      assert.equal(await readlink(join(directory, second[0])), second[1][1])
      assert.deepEqual((await readdir(join(directory, 'v2'))).sort(), ['.recollect', 'db.json'])
    })
  }
}

test('the data file fails with the name of the missing directory while a link leads nowhere, and nothing is lost', async (t) => {
  const { directory, swap } = await versions(t)
  await swap('current', 'v1')
  const server = await start(t, directory, 'current/db.json', EAGER)
  await swap('current', 'v3')
  await add(server, { name: 'Bob' })
  const status = async () =>
    ((await (await server.fetch('/health')).json()) as { dataFile: Record<string, string> }).dataFile
  // It is tried again every second, and is not failing meanwhile.
  const failing = await until('the data file to fail', async () => {
    const now = await status()
    return now.state === 'failing' && now
  })
  assert.match(String(failing.detail), /directory .*\/v3 of the data file .*\/current\/db\.json does not exist/)
  await add(server, { name: 'Carol' })
  await swap('current', 'v1')
  await until('the file to be written', async () => (await status()).state === 'current')
  assert.deepEqual(await shown(join(directory, 'v1', 'db.json')), [ANN, BOB, CAROL])
  assert.deepEqual(await things(server), [ANN, BOB, CAROL])
})

test('a journal below a swapped link stays where it was at the start', async (t) => {
  const { directory, swap } = await versions(t)
  await swap('current', 'v1')
  const flags = plainSegments(4096)
  const server = await startServer(t, { directory: join(directory, 'current'), flags })
  await swap('current', 'v2')
  for (let n = 0; n < 20; n++) await add(server, { text: 'x'.repeat(1000) })
  await server.fetch('/admin/reload', { method: 'POST' })
  // Bob of v2 has the id of the first new item, and the edit wins.
  assert.equal(((await things(server)) as unknown[]).length, 21)
  assert.equal(await server.stop(), 0)
  const segments = (await readdir(join(directory, 'v1', 'db.journal'))).filter((name) => name.endsWith('.ndjson'))
  assert.ok(segments.length > 3, `${segments.length} segments`)
  assert.deepEqual((await readdir(join(directory, 'v2'))).sort(), ['.recollect', 'db.json'])
})
