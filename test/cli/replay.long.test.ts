import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { turnsUntil } from '../support/deadline.ts'
import { stateOf } from '../support/directory.ts'
import { type RunningServer, startServer } from '../support/server.ts'
import { FIRST, readJson, recollect, startWritten, write } from './recollect.ts'

interface Told {
  readonly position: number
  readonly time: string
}

const ends: (() => Promise<unknown>)[] = []
const scope = { after: (end: () => Promise<unknown>) => void ends.unshift(end) }
/** It runs all the while: a replay only reads. */
let server: RunningServer
let events: readonly Told[]
let out: string
let names = 0

before(async () => {
  server = await startWritten(scope, 10)
  // One instant separates the two halves.
  const { time } = ((await (await server.fetch('/events')).json()) as Told[]).at(-1) as Told
  await turnsUntil('the next millisecond', () => new Date().toISOString() > time)
  await write(server, 11, 20)
  events = (await (await server.fetch('/events')).json()) as Told[]
})
after(async () => {
  for (const end of ends) await end()
})

const head = () => events.length
const newOut = () => {
  out = join(server.directory, `out-${names++}.json`)
  return out
}

/** The state after so many rounds. */
function stateAfter(rounds: number): unknown {
  return {
    a: [{ id: 'x', n: rounds }],
    b: Array.from({ length: rounds }, (_, index) => ({ id: index, n: index + 1 })),
  }
}

test('replay writes the state directly after a position', async (t) => {
  const first = head() - 40
  for (const rounds of [1, 7, 19, 20]) {
    const position = first + 2 * rounds
    const { code, stdout } = await recollect(t, server.directory, 'replay', '--to', String(position), '--out', newOut())
    assert.equal(code, 0)
    assert.equal(stdout, `Wrote ${out}: ${rounds + 1} items in 2 collections, as they were at position ${position}.\n`)
    assert.deepEqual(await readJson(out), stateAfter(rounds))
  }
  const between = await recollect(t, server.directory, 'replay', '--to', String(first + 3), '--out', newOut())
  assert.equal(between.code, 0)
  assert.deepEqual(await readJson(out), { a: [{ id: 'x', n: 2 }], b: [{ id: 0, n: 1 }] })
})

test('each position within the initial import can be replayed', async (t) => {
  const first = head() - 40
  assert.ok(first > 2)
  await recollect(t, server.directory, 'replay', '--to', String(first), '--out', newOut())
  assert.deepEqual(await readJson(out), FIRST)
  await recollect(t, server.directory, 'replay', '--to', '1', '--out', newOut())
  assert.deepEqual(await readJson(out), { a: [] })
})

test('position 0 is the empty state', async (t) => {
  const { code } = await recollect(t, server.directory, 'replay', '--to', '0', '--out', newOut())
  assert.equal(code, 0)
  assert.equal(await readFile(out, 'utf8'), '{}\n')
})

test('replay to an instant includes the last event up to it', async (t) => {
  const half = events[head() - 21] as Told
  const { code, stdout } = await recollect(t, server.directory, 'replay', '--to', half.time, '--out', newOut())
  assert.equal(code, 0)
  assert.match(stdout, new RegExp(`at position ${half.position}\\.$`, 'm'))
  assert.deepEqual(await readJson(out), stateAfter(10))
  await recollect(t, server.directory, 'replay', '--to', '2001-01-01', '--out', newOut())
  assert.deepEqual(await readJson(out), {})
})

test('a position beyond the head, or an invalid one, exits with 2 and writes nothing', async (t) => {
  for (const to of [String(head() + 1), '999999999999999', '-1', '1.5', 'yesterday', '2026-13-01', '']) {
    const { code, stderr } = await recollect(t, server.directory, 'replay', '--to', to, '--out', newOut())
    assert.equal(code, 2, `${to}: ${stderr}`)
    assert.ok(stderr.startsWith('recollect: '), stderr)
    assert.equal(existsSync(out), false)
  }
})

test('an existing file is never overwritten', async (t) => {
  await writeFile(newOut(), 'mine')
  const { code, stderr } = await recollect(t, server.directory, 'replay', '--to', '1', '--out', out)
  assert.equal(code, 1)
  assert.match(stderr, /exists already/)
  assert.equal(await readFile(out, 'utf8'), 'mine')
})

test('a missing argument exits with 2 and names it; a missing journal exits with 1 and creates nothing', async (t) => {
  const without = await recollect(t, server.directory, 'replay')
  assert.equal(without.code, 2)
  assert.match(without.stderr, /needs --to/)
  assert.match(without.stderr, /needs --out/)
  const before = await stateOf(server.directory)
  const nowhere = join(server.directory, 'nowhere')
  const { code, stderr } = await recollect(
    t,
    server.directory,
    'replay',
    '--journal',
    nowhere,
    '--to',
    '0',
    '--out',
    newOut(),
  )
  assert.equal(code, 1)
  assert.match(stderr, /There is no journal in/)
  assert.deepEqual(await stateOf(server.directory), before)
})

test('a server imports a replayed file as its initial items', async (t) => {
  await recollect(t, server.directory, 'replay', '--to', String(head()), '--out', newOut())
  const other = await startServer(t, { data: await readJson(out) })
  assert.deepEqual(await (await other.fetch('/api/b?pageSize=100')).json(), (stateAfter(20) as { b: unknown }).b)
})
