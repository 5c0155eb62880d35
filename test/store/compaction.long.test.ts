import assert from 'node:assert/strict'
import { cpSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startProbed } from '../support/probe.ts'
import { Random, SEED } from '../support/random.ts'
import { json, ofOneServer, runToEnd, startProgram } from '../support/server.ts'
import { ALL_DAY, FLAGS, grownStore, isCompacted } from './grown-store.ts'
import { checkServed } from './service.ts'

const KILLS = Number(process.env.COMPACTION_KILLS ?? 4)
const ITEMS = Number(process.env.COMPACTION_ITEMS ?? 20_000)
const WRITERS = 4
/** Names of the store's file: a compaction writes the other one. */
const FILES = ['store.mdb', 'store-2.mdb'].map((name) => join('db.journal/store', name))
const skip = ofOneServer('it is about the store of one process')

/** The items that one writer writes alone: one of so many keys, from the first on. */
interface Keys {
  readonly first: number
  readonly acknowledged: Map<string, number>
}

function keys(): Keys[] {
  return Array.from({ length: WRITERS }, (_, first) => ({ first, acknowledged: new Map() }))
}

/** Writes one after the other until it is ended, or nobody answers; `acknowledged` has the last value of each key. */
async function write(url: string, { first, acknowledged }: Keys, random: Random, isEnded: () => boolean) {
  while (!isEnded()) {
    const key = `${first + WRITERS * random.integer(ITEMS / WRITERS)}`
    const n = random.integer(1e9)
    const answer = await fetch(`${url}/api/a/${key}`, json('PUT', { n })).catch(() => undefined)
    if (!answer) {
      acknowledged.delete(key)
      return
    }
    await answer.arrayBuffer().catch(() => {})
    if (answer.ok) acknowledged.set(key, n)
  }
}

function filesIn(directory: string): number {
  return FILES.filter((name) => existsSync(join(directory, name))).length
}

async function verify(t: TestContext, directory: string, context: string): Promise<void> {
  const flags = ['verify', '--file', join(directory, 'db.json'), '--store']
  const { code, stdout, stderr } = await runToEnd(t, directory, flags)
  assert.equal(code, 0, `${context}: ${stdout}${stderr}`)
}

test('a store that has grown is compacted under writes', { skip }, async (t) => {
  const directory = await grownStore(t, ITEMS)
  const random = new Random(SEED)
  const server = await startProbed(t, { directory, flags: [...FLAGS, ...ALL_DAY] })
  let isEnded = false
  const writers = keys()
  const writing = writers.map((own) => write(server.url, own, random, () => isEnded))
  const block = await server.longestBlock(
    () => until('the store to be compacted', () => isCompacted(server.stderr())),
    1,
  )
  t.diagnostic(`longest block of the event loop: ${block.toFixed(1)} ms`)
  const written = () => writers.reduce((sum, { acknowledged }) => sum + acknowledged.size, 0)
  const before = written()
  await until('items to be written after it', () => written() > before + 100)
  isEnded = true
  await Promise.all(writing)
  const [, was, is] = /"before":(\d+),"after":(\d+),"msg":"the store was compacted"/.exec(server.stderr()) ?? []
  assert.ok(Number(is) < Number(was) / 2, server.stderr())
  const expected = await checkServed(server.url, 'compacted')
  server.process.kill('SIGTERM')
  await until('the server to end', () => server.process.exitCode !== null)
  assert.equal(server.process.exitCode, 0, server.stderr())
  await verify(t, directory, 'compacted')
  const again = await startProgram(t, { directory, flags: FLAGS })
  assert.doesNotMatch(again.stderr(), /built again/)
  assert.deepEqual(await checkServed(again.url, 'started again'), expected)
  assert.equal(await again.stop(), 0, again.stderr())
})

test('killed during a compaction of the store, it starts with the store as it is, and no acknowledged write is lost', {
  skip,
}, async (t) => {
  const random = new Random(SEED)
  const template = await grownStore(t, ITEMS)
  let finished = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const context = `SEED=${SEED}, kill ${kill}`
    const directory = join(await temporaryDirectory(t), 'killed')
    cpSync(template, directory, { recursive: true, preserveTimestamps: true })
    const server = await startProgram(t, { directory, flags: [...FLAGS, ...ALL_DAY] })
    const writers = keys()
    const writing = writers.map((own) => write(server.url, own, random, () => false))
    await until('the compaction to begin', () => filesIn(directory) > 1 || isCompacted(server.stderr()))
    await sleep(random.integer(random.chance(0.5) ? 2000 : 150))
    if (isCompacted(server.stderr())) finished++
    await server.stop('SIGKILL')
    await Promise.all(writing)

    const again = await startProgram(t, { directory, flags: FLAGS })
    assert.doesNotMatch(again.stderr(), /built again/, context)
    const { a } = Object.fromEntries(await checkServed(again.url, context))
    for (const [key, n] of writers.flatMap(({ acknowledged }) => [...acknowledged])) {
      assert.equal((JSON.parse(a?.get(key) ?? '{}') as { n?: number }).n, n, `${context}: ${key}`)
    }
    assert.equal(await again.stop(), 0, again.stderr())
    assert.equal(filesIn(directory), 1, context)
    await verify(t, directory, context)
  }
  t.diagnostic(`${KILLS} kills, ${finished} of them after the compaction had ended`)
})
