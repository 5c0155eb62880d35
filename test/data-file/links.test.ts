import assert from 'node:assert/strict'
import { lstat, mkdir, readdir, readFile, readlink, rename, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

const ANN = { id: 0, name: 'Ann' }
const BOB = { id: 1, name: 'Bob' }
const CAROL = { id: 2, name: 'Carol' }
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
      assert.deepEqual((await readdir(join(directory, 'v2'))).sort(), ['.db.json.recollect', 'db.json'])
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
  await until('the data file to fail', async () => (await status()).state === 'failing')
  assert.match(
    String((await status()).detail),
    /directory .*\/v3 of the data file .*\/current\/db\.json does not exist/,
  )
  await add(server, { name: 'Carol' })
  await swap('current', 'v1')
  await until('the file to be written', async () => (await status()).state === 'current')
  assert.deepEqual(await shown(join(directory, 'v1', 'db.json')), [ANN, BOB, CAROL])
  assert.deepEqual(await things(server), [ANN, BOB, CAROL])
})

test('a journal below a swapped link stays where it was at the start', async (t) => {
  const { directory, swap } = await versions(t)
  await swap('current', 'v1')
  const flags = ['--Journal.SegmentBytes', '4096']
  const server = await startServer(t, { directory: join(directory, 'current'), flags })
  await swap('current', 'v2')
  for (let n = 0; n < 20; n++) await add(server, { text: 'x'.repeat(1000) })
  await server.fetch('/admin/reload', { method: 'POST' })
  // Bob of v2 has the id of the first new item, and the edit wins.
  assert.equal(((await things(server)) as unknown[]).length, 21)
  assert.equal(await server.stop(), 0)
  const segments = (await readdir(join(directory, 'v1', 'db.journal'))).filter((name) => name.endsWith('.ndjson'))
  assert.ok(segments.length > 3, `${segments.length} segments`)
  assert.deepEqual((await readdir(join(directory, 'v2'))).sort(), ['.db.json.recollect', 'db.json'])
})
