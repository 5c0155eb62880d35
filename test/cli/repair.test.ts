import assert from 'node:assert/strict'
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { each, fetch, until } from '../support/deadline.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { json, ofOneServer, plainSegments, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { edit, recollect, segmentOf, startWritten, write } from './recollect.ts'

const ONE_SERVER = { skip: ofOneServer('a node repairs its copy from the stream') }
const FLAGS = plainSegments(2000)

interface Health {
  readonly status: string
  readonly position: number
  readonly journal: {
    readonly damage?: {
      readonly places: number
      readonly first: readonly {
        readonly segment: string
        readonly offset: number
        readonly position: number
        readonly next: number
      }[]
      readonly repair: string
    }
  }
}

const healthOf = async ({ url }: { readonly url: string }) => (await (await fetch(`${url}/health`)).json()) as Health

/** Damages the second event of `a`. */
const flip = (bytes: Buffer): Buffer => {
  const changed = Buffer.from(bytes)
  const found = /"type":"ItemReplaced","collection":"a"/.exec(changed.toString('latin1'))
  const at = (found?.index ?? changed.length) + 5
  changed[at] = (changed[at] as number) ^ 16
  return changed
}

/** A stopped server's directory and a copy of it. */
async function stopped(t: TestContext) {
  const server = await startWritten(t, 20)
  await server.stop()
  const copy = await temporaryDirectory(t)
  await cp(server.directory, copy, { recursive: true })
  return { directory: server.directory, copy }
}

/** Starts with a damaged segment, and waits until the check has found that. */
async function startDamaged(
  t: TestContext,
  directory: string,
  flags: readonly string[] = FLAGS,
): Promise<RunningProgram> {
  const server = await startProgram(t, { directory, flags })
  await until('the damage to be found', async () => (await healthOf(server)).status === 'degraded')
  return server
}

/** The last position in a stream of events that the server ends early. */
async function lastBeforeCut({ body }: Response): Promise<number> {
  let text = ''
  await assert.rejects(async () => {
    for await (const chunk of body as AsyncIterable<Uint8Array>) text += Buffer.from(chunk).toString()
  })
  return Math.max(...[...text.matchAll(/\{"position":(\d+),/g)].map(([, at]) => Number(at)))
}

test(
  'a server with a damaged sealed segment serves and writes all that does not need it, and says what to do',
  ONE_SERVER,
  async (t) => {
    const { directory, copy } = await stopped(t)
    const segment = segmentOf(directory, 1)
    await edit(segment, flip)
    const server = await startDamaged(t, directory)
    const { damage } = (await healthOf(server)).journal
    const [place] = damage?.first ?? []
    assert.equal(damage?.places, 1)
    assert.equal(place?.segment, segment)
    assert.equal(damage?.repair, `recollect repair --journal ${join(directory, 'db.journal')} --from <backup or copy>`)
    const { position, next } = place as { position: number; next: number }
    assert.ok(position > 1 && next > position)
    assert.match(server.log(), /the journal is damaged.*/)
    assert.match(await (await server.fetch('/metrics')).text(), /recollect_journal_damaged_places 1\n/)

    // The present and later events.
    await write(server, 21, 22)
    assert.deepEqual(await (await server.fetch('/api/a/x')).json(), { id: 'x', n: 22 })
    const later = (await (await server.fetch(`/events?from=${next}&limit=2`)).json()) as { position: number }[]
    assert.equal(later[0]?.position, next)
    // Events before the damage are a page, and the next page fails.
    const before = await server.fetch('/events')
    assert.equal(((await before.json()) as unknown[]).length, position - 1)
    for (const accept of ['application/x-ndjson', 'text/event-stream']) {
      const stream = await server.fetch('/events', { headers: { Accept: accept } })
      assert.equal(await lastBeforeCut(stream), position - 1, accept)
    }
    const client = connect(server.url)
    for (const [filter, last] of [
      [{}, position - 1],
      [{ type: 'IdsReset' }, 0],
    ] as const) {
      let found = 0
      const following = async (): Promise<void> => {
        for await (const event of each('an event', client.events({ ...filter, follow: true }))) found = event.position
      }
      await assert.rejects(following, { status: 503, code: 'Unavailable', nextReadable: next })
      assert.equal(found, last)
    }
    const [, link = ''] = /<(.*)>; rel="next"/.exec(before.headers.get('link') ?? '') ?? []
    for (const [path, accept] of [
      [link, 'application/json'],
      [`/events/${position}`, 'application/json'],
      [`/events?from=${position}&order=asc`, 'application/x-ndjson'],
      [`/events?from=${position}`, 'text/event-stream'],
      [`/events?from=${next - 1}&order=desc`, 'application/json'],
    ] as const) {
      const answer = await server.fetch(path, { headers: { Accept: accept } })
      assert.deepEqual([path, accept, answer.status], [path, accept, 503])
      const { firstUnreadable, nextReadable, detail } = (await answer.json()) as Record<string, unknown>
      assert.equal(nextReadable, next, path)
      assert.ok((firstUnreadable as number) >= position && (firstUnreadable as number) < next)
      assert.match(String(detail), new RegExp(`Reading can continue at position ${next}\\..*/health`))
    }
    const newest = await server.fetch('/events?order=desc&limit=1000')
    const positions = ((await newest.json()) as { position: number }[]).map((event) => event.position)
    assert.deepEqual([positions[0], positions.at(-1)], [(await healthOf(server)).position, next])
    assert.match(newest.headers.get('link') ?? '', new RegExp(`from=${next - 1}&`))
    for (const [name, status] of [
      ['a/x', 503],
      ['b', 200],
    ] as const)
      assert.equal((await server.fetch(`/api/${name}?asOf=${position}`)).status, status, name)

    // An edit of the data file is merged.
    const data = JSON.parse(await readFile(server.file, 'utf8')) as { a: object[] }
    data.a.push({ id: 'edited' })
    await writeFile(server.file, JSON.stringify(data))
    const reloaded = await server.fetch('/admin/reload', { method: 'POST' })
    assert.equal(reloaded.status, 200, await reloaded.text())
    assert.equal((await server.fetch('/api/a/edited')).status, 200)
    const verified =
      (await (await server.fetch('/admin/verify', { method: 'POST' })).text()).trim().split('\n').at(-1) ?? ''
    assert.match(verified, /^\{"ok":false,"position":\d+,"problem":".*the record is damaged","damage":\[\{/)
    assert.equal(await server.stop(), 0)

    const readOnly = await startDamaged(t, directory, [...FLAGS, '--read-only'])
    assert.equal((await readOnly.fetch('/api/a/x')).status, 200)
    await readOnly.stop()

    const found = await recollect(t, directory, 'verify', '--json')
    const { ok, problems, advice } = JSON.parse(found.stdout) as { ok: boolean; problems: string[]; advice: string }
    assert.deepEqual([found.code, ok, problems.length], [1, false, 1])
    assert.match(advice, /recollect repair --from/)

    const repaired = await recollect(t, directory, 'repair', '--from', copy)
    assert.equal(repaired.stdout, `Repaired ${segment}: 1 record is from ${join(copy, 'db.journal')}.\n`)
    assert.deepEqual([repaired.code, repaired.stderr], [0, ''])
    assert.ok((await readFile(segment)).equals(await readFile(segmentOf(copy, 1))))
    const whole = await startProgram(t, { directory, flags: FLAGS })
    assert.equal((await whole.fetch('/events?limit=1')).status, 200)
    assert.equal((await whole.fetch(`/events/${position}`)).status, 200)
    assert.equal((await healthOf(whole)).status, 'ok')
  },
)

test(
  'damage without a store, or a missing segment, is refused with the command that repairs it',
  ONE_SERVER,
  async (t) => {
    const { directory, copy } = await stopped(t)
    const segments = (await readdir(join(directory, 'db.journal'))).filter((name) => name.endsWith('.ndjson')).sort()
    const middle = Number((segments[2] as string).slice(0, 20))
    const newest = Number((segments.at(-1) as string).slice(0, 20))
    const damages = {
      'a damaged record and no store': async () => {
        await edit(segmentOf(directory, 1), flip)
        await rm(join(directory, 'db.journal', 'store'), { recursive: true })
      },
      'a missing segment': () => rm(segmentOf(directory, middle)),
      'a missing last segment': () => rm(segmentOf(directory, newest)),
    }
    for (const [what, damage] of Object.entries(damages)) {
      await damage()
      const before = await stateOf(directory)
      const refused = await runToEnd(t, directory, ['--file', join(directory, 'db.json'), '--port', '0'])
      assert.equal(refused.code, 1, what)
      assert.match(refused.stderr, /recollect repair --from/, what)
      assert.deepEqual((await stateOf(directory)).size, before.size)
      const repaired = await recollect(t, directory, 'repair', '--from', join(copy, 'db.json'))
      assert.deepEqual([repaired.code, repaired.stderr], [0, ''], what)
      assert.match(repaired.stdout, /^Repaired .*: \d+ records? (?:is|are) from /)
      const server = await startProgram(t, { directory, flags: FLAGS })
      assert.equal((await server.fetch('/events/1')).status, 200)
      assert.equal((await healthOf(server)).status, 'ok', what)
      await server.stop()
    }
  },
)

test('repair says what is wrong with its source, and changes nothing then', ONE_SERVER, async (t) => {
  const { directory, copy } = await stopped(t)
  const other = await startProgram(t, { data: { a: [] } })
  await other.fetch('/api/a', json('POST', { n: 1 }))
  await edit(segmentOf(directory, 1), flip)
  const before = await stateOf(join(directory, 'db.journal'))
  const refused = async (from: string, why: RegExp, code = 1): Promise<void> => {
    const found = await recollect(t, directory, 'repair', '--from', from)
    assert.match(found.stdout + found.stderr, why)
    assert.equal(found.code, code)
    assert.deepEqual(await stateOf(join(directory, 'db.journal')), before)
  }
  await refused(join(directory, 'db.journal'), /is the journal to be repaired/, 2)
  await refused(join(directory, 'nowhere'), /There is no journal in .*nowhere\. --from names/)
  await refused(other.directory, /holds another journal/)
  await edit(segmentOf(copy, 1), flip)
  await refused(copy, /could not be repaired: .*the record is damaged/)
  assert.match((await recollect(t, directory, 'repair')).stderr, /repair needs --from/)
  for (const flags of [
    ['--journal', join(directory, 'absent.journal')],
    ['--journal', directory],
    ['--journal', join(directory, 'db.json')],
  ]) {
    const { code, stderr } = await recollect(t, directory, 'repair', '--from', copy, ...flags)
    assert.match(stderr, /There is no journal in .*\. recollect restore makes one from a backup\./)
    assert.equal(code, 1)
  }
  assert.deepEqual((await readdir(directory)).sort(), ['.recollect', 'db.journal', 'db.json'])
  const running = await startDamaged(t, directory)
  await refused(other.directory, /is in use by another process/)
  await running.stop()
})

test(
  'a repair that begins a segment keeps the store, and the next starts read only later events',
  ONE_SERVER,
  async (t) => {
    const { directory, copy } = await stopped(t)
    const segments = (await readdir(join(directory, 'db.journal'))).filter((name) => name.endsWith('.ndjson')).sort()
    const [, , name = ''] = segments
    await edit(join(directory, 'db.journal', name), (bytes) =>
      bytes.subarray(0, bytes.lastIndexOf('\n', bytes.length - 2) + 1),
    )
    const repaired = await recollect(t, directory, 'repair', '--from', copy)
    assert.deepEqual([repaired.code, repaired.stderr], [0, ''])
    for (let start = 0; start < 2; start++) {
      const server = await startProgram(t, { directory, flags: [...FLAGS, '--Log.Level', 'debug'] })
      assert.equal((await server.fetch('/events/1')).status, 200)
      assert.equal((await healthOf(server)).status, 'ok')
      await write(server, 30 + start, 31 + start)
      assert.doesNotMatch(server.log(), /built again/)
      if (start === 1) await until('the check', () => /up to the position of the store was verified/.test(server.log()))
      assert.equal(await server.stop(), 0)
      const compared = await recollect(t, directory, 'verify', '--store')
      assert.deepEqual([compared.code, compared.stderr], [0, ''], compared.stdout)
    }
  },
)
