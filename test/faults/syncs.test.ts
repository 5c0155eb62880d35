import assert from 'node:assert/strict'
import { constants, existsSync } from 'node:fs'
import { readdir, readFile, readlink, realpath } from 'node:fs/promises'
import { platform } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { segmentName } from '../../src/events/segment.ts'
import { SegmentReader } from '../../src/events/segment-reader.ts'
import { walk } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { within } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { spawnServer, startProgram } from '../support/server.ts'
import { History } from './history.ts'
import { Load } from './load.ts'

const SYNCS = Number(process.env.SYNCS ?? 1)
const FLAGS = ['--Api.UpsertOnPut', 'true']

const STRACE = process.env.STRACE ?? '/usr/bin/strace'
const withoutStrace = existsSync(STRACE) ? false : 'strace is missing'

/** Lets the nth call for one file fail. One thread for the file system: strace counts per thread. */
function failing(call: 'fdatasync' | 'pwrite64', path: string, nth: number) {
  const inject = `inject=${call}:error=EIO:when=${nth}`
  return {
    under: [STRACE, '-f', '-qqq', '-o', '/dev/null', '-P', path, '-e', `trace=${call}`, '-e', inject],
    env: { UV_THREADPOOL_SIZE: '1' },
  }
}

test('a failed durable write of the journal ends the process, and nothing is acknowledged by it or after it', {
  skip: withoutStrace,
}, async (t) => {
  const random = new Random(SEED)
  for (let round = 0; round < SYNCS; round++) {
    const context = `SEED=${SEED}, round ${round}`
    const first = await startProgram(t, { data: {}, flags: FLAGS })
    assert.equal(await first.stop(), 0)
    const { directory } = first
    const journal = join(directory, 'db.journal')
    // Each write to a segment is a write batch, and waits for the medium.
    const nth = 1 + random.integer(30)
    const server = spawnServer(t, directory, {
      ...failing('pwrite64', join(journal, segmentName(1)), nth),
      flags: FLAGS,
    })
    const url = await server.listening()
    assert.ok(url, server.stderr())
    const load = new Load(random, `s${round}`)
    await within('the end of the writes to a server that fails', load.run(url, 8))
    assert.deepEqual(await server.ended(), { code: 1, signal: null }, context)
    assert.match(server.stderr(), /EIO/, context)

    const batches = new Set<number>()
    const batchOf = new Map<string, number>()
    const { segments, next } = await walk(nodeFiles, journal)
    for await (const { record } of new SegmentReader(nodeFiles, segments).lines(1, next.position - 1)) {
      batches.add(record.flush)
      batchOf.set(record.requestId, batches.size)
    }
    assert.equal(batches.size, nth - 1, `${context}: write ${nth} failed`)
    for (const [id, { acknowledged }] of load.sent) {
      if (!acknowledged) continue
      const batch = batchOf.get(id)
      assert.ok(batch !== undefined && batch < nth, `${context}: ${id} was acknowledged, write ${nth} failed`)
    }
    assert.ok(load.acknowledged > 0 || nth === 1, context)

    const again = await startProgram(t, { directory })
    await new History().check(again.url, load)
    assert.equal(await again.stop(), 0)
  }
  t.diagnostic(`${SYNCS} failed writes, the process ended each time`)
})

test('a write to a segment waits for the disk to sync', {
  skip: platform() === 'linux' ? false : 'O_DSYNC is asked of Linux alone',
}, async (t) => {
  const server = await startProgram(t, { data: {} })
  const segment = await realpath(join(server.directory, 'db.journal', segmentName(1)))
  const descriptors = await readdir(`/proc/${server.process.pid}/fd`)
  const flags: number[] = []
  for (const fd of descriptors) {
    // Some are closed meanwhile.
    const path = await readlink(`/proc/${server.process.pid}/fd/${fd}`).catch(() => undefined)
    if (path !== segment) continue
    const info = await readFile(`/proc/${server.process.pid}/fdinfo/${fd}`, 'utf8')
    flags.push(Number.parseInt(/^flags:\s*(\d+)$/m.exec(info)?.[1] ?? '', 8))
  }
  assert.equal(flags.length, 1)
  assert.equal((flags[0] as number) & constants.O_DSYNC, constants.O_DSYNC)
})

test('the start fails when the first sync, that of opening, fails', { skip: withoutStrace }, async (t) => {
  const first = await startProgram(t, { data: {} })
  assert.equal(await first.stop(), 0)
  const segment = join(first.directory, 'db.journal', segmentName(1))
  const server = spawnServer(t, first.directory, failing('fdatasync', segment, 1))
  assert.equal(await server.listening(), undefined)
  assert.equal((await server.ended()).code, 1)
})
