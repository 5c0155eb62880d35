import assert from 'node:assert/strict'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { fill, mountSmallDisk, type Scope } from '../support/directory.ts'
import { assertOnceAMinute } from '../support/process.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { History } from './history.ts'
import { Load } from './load.ts'

const ROUNDS = Number(process.env.DISK_ROUNDS ?? 2)
const FLAGS = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '60000']

interface Health {
  readonly status: string
  readonly journal: { readonly writable: boolean }
  readonly dataFile: { readonly state: string; readonly detail?: string }
  readonly store: { readonly state: string }
}

test('on a full disk reads continue, writes get 507, nothing is damaged, and writes resume when there is space', async (t) => {
  // With room for what the rounds leave in the journal.
  const disk = await mountSmallDisk(t, 3000 + 300 * ROUNDS)
  if ('missing' in disk) return t.skip(disk.missing)
  try {
    await fillAndFree(t, disk.directory)
  } finally {
    disk.unmount()
  }
})

async function fillAndFree(t: Scope & { diagnostic(message: string): void }, directory: string): Promise<void> {
  const random = new Random(SEED)
  const filler = join(directory, 'filler')
  const history = new History()
  let startedMs = performance.now()
  let server = await startProgram(t, { directory, flags: FLAGS, data: { a: [], b: [], c: [] } })
  await history.skip(server.url)
  let refused = 0
  let slowestMs = 0
  let reads = 0
  for (let round = 0; round < ROUNDS; round++) {
    const load = new Load(random, `d${round}`)
    const working = load.run(server.url, 4)
    await load.reached(50)
    const reading = readOn(server)
    await fill(filler)
    await until('writes are refused', () => (load.answers.get(507) ?? 0) > 20)
    load.end()
    await working

    await checkFull(server, filler, load)
    reads += await reading.end()
    if (round % 3 !== 0) {
      if (round % 3 === 1) await server.stop('SIGKILL')
      else assert.equal(await server.stop('SIGTERM'), 0, server.stderr())
      startedMs = performance.now()
      server = await startProgram(t, { directory, flags: FLAGS })
      const { status } = await server.fetch('/api/a')
      // Writes that fit into the journal, and not into the store, are stored before any request is answered.
      if (status === 503) assert.match((await healthOf(server)).store.state, /full|building/)
      else {
        assert.equal(status, 200)
        await checkFull(server, filler, load)
      }
    }

    await rm(filler)
    const began = performance.now()
    const again = load.acknowledged
    const resuming = load.run(server.url, 4)
    await load.reached(again + 1)
    slowestMs = Math.max(slowestMs, performance.now() - began)
    await load.reached(again + 50)
    load.end()
    await resuming
    await until('all is well again', async () => {
      const { status, dataFile } = await healthOf(server)
      return status === 'ok' && dataFile.state === 'current'
    })
    assert.deepEqual(
      // 504: the journal had room for it, and the store had none any more. 503: a start has still to put it in.
      [...load.answers.keys()].filter((status) => status >= 300 && ![404, 503, 504, 507].includes(status)),
      [],
    )
    // A restart has another log.
    if (round % 3 === 0) {
      const messages = ['the journal cannot be written', 'the disk has no room for the store']
      assertOnceAMinute(server.stderr(), startedMs, ...messages)
    }
    refused += load.answers.get(507) ?? 0
    await history.check(server.url, load)
  }
  await history.checkAll(server.url)
  assert.equal(await server.stop(), 0)
  const verified = await runToEnd(t, directory, ['verify', '--file', server.file, '--json'])
  assert.equal(verified.code, 0, verified.stdout)
  assert.equal(JSON.parse(verified.stdout).dataFile, 'current')
  t.diagnostic(
    `${ROUNDS} full disks: ${refused} writes refused with 507, ${reads} reads answered, resumed after ${Math.round(slowestMs)} ms at most`,
  )
}

/** The promises while there is no space; more writes are accepted when some is freed. */
async function checkFull(server: RunningProgram, filler: string, load: Load): Promise<void> {
  const body = { n: 1, text: 'x'.repeat(20_000) }
  let attempts = 0
  const refusal = await until('a write is refused', async () => {
    await fill(filler)
    const id = `${load.name}-full-${attempts++}`
    const answer = await server.fetch('/api/a/k0', json('PUT', body, { 'X-Request-Id': id }))
    if (answer.status === 507) return answer
    if (answer.status >= 300) {
      assert.equal(answer.status, 504)
      load.sent.set(id, { method: 'PUT', collection: 'a', key: 'k0', body })
      return undefined
    }
    const position = Number(answer.headers.get('Journal-Position'))
    load.sent.set(id, { method: 'PUT', collection: 'a', key: 'k0', body, acknowledged: { position, id: 'k0' } })
    return undefined
  })
  assert.equal(refusal.status, 507)
  assert.equal(refusal.headers.get('Content-Type'), 'application/problem+json')
  const problem = (await refusal.json()) as { type: string; status: number; instance: string }
  assert.equal(problem.type, 'urn:recollect:problem:DiskFull')
  assert.equal(problem.status, 507)
  assert.equal(problem.instance, '/api/a/k0')
  const { status, journal } = await healthOf(server)
  assert.deepEqual({ status, writable: journal.writable }, { status: 'unavailable', writable: false })
  await until('the data file is told to be failing, or has nothing to show', async () => {
    await fill(filler)
    const { dataFile, store } = await healthOf(server)
    // Changes that nobody can see yet must not be written.
    if (store.state === 'full' || dataFile.state === 'current') return true
    return dataFile.state === 'failing' && /ENOSPC/.test(dataFile.detail ?? '')
  })
  JSON.parse(await readFile(server.file, 'utf8'))
}

async function healthOf(server: RunningProgram): Promise<Health> {
  return (await (await server.fetch('/health')).json()) as Health
}

/** Reads without a pause; every answer must be 200. */
function readOn(server: RunningProgram): { end(): Promise<number> } {
  let isEnding = false
  let reads = 0
  const reading = (async () => {
    while (!isEnding) {
      for (const path of ['/api', '/api/a', '/api/b?sort=n_desc', '/events?limit=5']) {
        const answer = await server.fetch(path)
        await answer.arrayBuffer()
        assert.equal(answer.status, 200, path)
        reads++
      }
    }
    return reads
  })()
  return {
    end() {
      isEnding = true
      return reading
    },
  }
}
