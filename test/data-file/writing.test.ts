import assert from 'node:assert/strict'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import type { Schedule } from '../../src/runtime/turns.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { LARGE, openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const NOW_MS = Date.parse('2026-11-20T12:00:00.000Z')
const STOP = { dataFile: { write: 'stop', maxDelaySeconds: undefined } } as const
const NEVER = { dataFile: { write: 'never', maxDelaySeconds: undefined } } as const

/** A data file on the real disk: where it is, as settings. */
async function largeFile(t: Scope): Promise<{ readonly file: string; readonly journal: string }> {
  const directory = await temporaryDirectory(t)
  const [file, journal] = [join(directory, 'db.json'), join(directory, 'db.journal')]
  await mkdir(directory, { recursive: true })
  await writeFile(file, `${JSON.stringify(LARGE, null, 2)}\n`)
  return { file, journal }
}

/** Replaces an item by one as long. */
async function replaceItem(engine: FileEngine, key: number, n: number): Promise<void> {
  const command = {
    type: 'ReplaceItem',
    collection: 'a',
    key: String(key),
    item: { n, text: LARGE.a[0]?.text ?? '' },
  } as const
  await engine.handler.handle(command, { actor: 'client', requestId: 'r' })
}

/** The real disk, and how often and with how many bytes a new data file was written. */
function countedFiles(written: (bytes: number) => void | Promise<void> = () => {}): Files & {
  readonly count: { files: number; bytes: number }
} {
  const count = { files: 0, bytes: 0 }
  return {
    ...nodeFiles,
    count,
    async open(path, how, mode) {
      const file = await nodeFiles.open(path, how, mode)
      if (how !== 'create' || !path.endsWith('/db.json.new')) return file
      count.files++
      return {
        ...file,
        async write(bytes, offset) {
          await written(bytes.length)
          const taken = await file.write(bytes, offset)
          count.bytes += taken
          return taken
        },
      }
    },
  }
}

interface Place {
  readonly file: string
  readonly journal: string
}

async function open(
  place: Place,
  files: Files = countedFiles(),
  settings: Partial<Settings> = {},
  elapsedMs?: () => number,
) {
  const { engine } = await openTestEngine(files, { ...place, ...settings }, undefined, undefined, undefined, elapsedMs)
  return engine
}

/** An engine with a data file of its own, which shows all there is. */
async function opened(t: TestContext, settings: Partial<Settings> = {}) {
  const place = await largeFile(t)
  const files = countedFiles()
  const engine = await open(place, files, settings)
  await settled(engine)
  return { place, files, engine }
}

/** Until what is due was written. */
async function settled(engine: FileEngine): Promise<void> {
  await until('the data file to be written if it is due', () => {
    const { nextWrite } = engine.dataFile.status
    return nextWrite === null || !('at' in nextWrite)
  })
}

type Data = { a: { id: number; n: number }[]; b?: { id: number }[] }

const shown = async ({ file }: Place) => JSON.parse(await readFile(file, 'utf8')) as Data
const served = (engine: FileEngine) => Object.fromEntries(snapshotOf(engine.views))

/** A clock that runs only while the data file is written: a second for each part, of which there are twenty. */
function slowly() {
  const clock = { ms: 0 }
  const files = countedFiles(() => {
    clock.ms += 1000
  })
  return { clock, files, elapsedMs: () => clock.ms }
}

test('for a data file of more than 1 MiB at most two bytes are written for each byte of the journal', async (t) => {
  const { place, files, engine } = await opened(t)
  const { figures } = engine.journal
  const { bytes } = figures
  let longest = 0
  for (let n = 1; n <= 120; n++) {
    await replaceItem(engine, n % LARGE.a.length, n)
    await settled(engine)
    const appended = figures.bytes - bytes
    assert.ok(files.count.bytes <= 2 * appended, `${files.count.bytes} bytes were written for ${appended}`)
    longest = Math.max(longest, engine.dataFile.status.behind.bytes)
  }
  const { size } = await stat(place.file)
  assert.ok(files.count.files >= 6, `it was written ${files.count.files} times`)
  assert.ok(longest <= 1.1 * size, `it was ${longest} bytes of the journal behind`)
  const expected = served(engine)
  await engine.close()
  assert.deepEqual(await shown(place), expected)
})

test('a data file is written at once until it exceeds 1 MiB', async (t) => {
  const place = await largeFile(t)
  await writeFile(place.file, '{"a":[]}')
  const files = countedFiles()
  const engine = await open(place, files)
  for (let n = 1; n <= 40; n++) {
    const item = { text: 'x'.repeat(64 * 1024) }
    await engine.handler.handle({ type: 'CreateItem', collection: 'a', item }, { actor: 'a', requestId: 'r' })
    await settled(engine)
    if (n <= 15) assert.equal((await shown(place)).a.length, n)
  }
  assert.ok(files.count.files < 20, `it was written ${files.count.files} times`)
  await engine.close()
  assert.equal((await shown(place)).a.length, 40)
})

test('with DataFile.Write stop the file is written only at a clean stop, and is complete then', async (t) => {
  const { place, files, engine } = await opened(t, STOP)
  for (let n = 1; n <= 45; n++) await replaceItem(engine, n % 20, n)
  await settled(engine)
  const { state, behind, nextWrite } = engine.dataFile.status
  assert.deepEqual([state, behind.events, nextWrite], ['behind', 45, null])
  assert.equal(files.count.files, 0)
  const expected = served(engine)
  await engine.close()
  assert.equal(files.count.files, 1)
  assert.deepEqual(await shown(place), expected)
})

test('with DataFile.Write never the file is written only by a snapshot', async (t) => {
  const { place, files, engine } = await opened(t, NEVER)
  for (let n = 1; n <= 45; n++) await replaceItem(engine, n % 20, n)
  assert.equal(await engine.snapshot(), engine.views.position)
  assert.deepEqual(await shown(place), served(engine))
  assert.deepEqual(engine.dataFile.status, {
    state: 'current',
    position: engine.views.position,
    behind: { events: 0, bytes: 0 },
    nextWrite: null,
  })
  await replaceItem(engine, 0, 100)
  await engine.close()
  assert.equal(files.count.files, 1)
  assert.notEqual((await shown(place)).a[0]?.n, 100)
})

test('with DataFile.Write never a missing file stays missing, and edits are merged', async (t) => {
  const { place, engine } = await opened(t, NEVER)
  await replaceItem(engine, 1, 1)
  const edited = await shown(place)
  edited.a[0] = { id: 0, n: 77 }
  await writeFile(place.file, JSON.stringify({ ...edited, b: [{ text: 'no id' }] }))
  assert.equal((await engine.reload()).events, 3)
  await until('the file to show the id', async () => (await shown(place)).b?.[0]?.id === 0)
  assert.deepEqual(await shown(place), served(engine))
  assert.equal((await engine.reload()).events, 0)
  await rm(place.file)
  await replaceItem(engine, 2, 2)
  await settled(engine)
  await engine.close()
  assert.equal(await stat(place.file).catch(() => undefined), undefined)
})

test('a snapshot does not overwrite an edit', async (t) => {
  const { place, engine } = await opened(t)
  await writeFile(place.file, '{"a":[]}')
  await replaceItem(engine, 1, 1)
  await assert.rejects(engine.snapshot(), { code: 'Conflict', message: /was edited/ })
  assert.equal(await readFile(place.file, 'utf8'), '{"a":[]}')
  assert.equal((await engine.reload()).events, 20)
  assert.equal(await engine.snapshot(), engine.views.position)
  await engine.close()
})

test('with DataFile.MaxDelay the file is written that many seconds after the first unwritten change', async (t) => {
  const place = await largeFile(t)
  const files = countedFiles()
  const deadlines: { readonly work: () => void; readonly delayMs: number; isCancelled: boolean }[] = []
  const schedule: Schedule = (work, delayMs) => {
    if (delayMs < 3_600_000) {
      const timer = setImmediate(work)
      return { cancel: () => clearImmediate(timer) }
    }
    const deadline = { work, delayMs, isCancelled: false }
    deadlines.push(deadline)
    return {
      cancel() {
        deadline.isCancelled = true
      },
    }
  }
  const settings = { ...place, dataFile: { write: 'auto', maxDelaySeconds: 3600 } } as const
  const { engine } = await openTestEngine(files, settings, () => new Date(NOW_MS), schedule, 1e9)
  for (let round = 1; round <= 2; round++) {
    await replaceItem(engine, 1, round)
    await replaceItem(engine, 2, round)
    const [deadline, ...others] = deadlines.filter(({ isCancelled }) => !isCancelled)
    assert.deepEqual([deadline?.delayMs, others.length], [3_600_000, 0])
    await until('the file not to be written yet', () => engine.dataFile.status.behind.events === 2)
    assert.deepEqual(engine.dataFile.status.nextWrite, { at: '2026-11-20T13:00:00.000Z' })
    assert.equal(files.count.files, round - 1)
    deadline?.work()
    deadlines.length = 0
    await until('the file to be current', () => engine.dataFile.status.state === 'current')
    assert.equal(engine.dataFile.status.nextWrite, null)
    assert.equal(files.count.files, round)
    assert.deepEqual(await shown(place), served(engine))
  }
  await engine.close()
})

test('a file that takes more than five seconds is not written at a stop, and an edit of it is merged at the next start', async (t) => {
  const { place, engine } = await opened(t)
  await replaceItem(engine, 1, 1)
  await engine.snapshot()
  await engine.close()
  const before = await readFile(place.file, 'utf8')

  const { clock, files, elapsedMs } = slowly()
  const slow = await open(place, files, {}, elapsedMs)
  await replaceItem(slow, 2, 2)
  await replaceItem(slow, 3, 3)
  await settled(slow)
  await slow.close()
  assert.ok(clock.ms > 5000 && clock.ms < 10_000, `it was given up after ${clock.ms} ms`)
  assert.equal(await readFile(place.file, 'utf8'), before)
  assert.equal(await stat(place.file.replace(/db\.json$/, '.recollect/db.json.new')).catch(() => undefined), undefined)

  const edited = JSON.parse(before) as { a: object[] }
  edited.a[3] = { id: 3, n: 33 }
  edited.a[4] = { id: 4, n: 44 }
  await writeFile(place.file, JSON.stringify(edited))
  const again = await open(place)
  const items = snapshotOf(again.views).get('a') as unknown as { n: number }[]
  assert.deepEqual(
    items.slice(0, 6).map(({ n }) => n),
    [0, 1, 2, 33, 44, 0],
  )
  await until('the merged file to be written', () => again.dataFile.status.state === 'current')
  assert.deepEqual(await shown(place), served(again))
  await again.close()
})

test('an outdated file is not written at a start, nor at a stop when that is known to take too long', async (t) => {
  const { place, engine } = await opened(t, NEVER)
  await replaceItem(engine, 1, 1)
  await engine.close()
  const { files, elapsedMs } = slowly()
  const slow = await open(place, files, {}, elapsedMs)
  await settled(slow)
  assert.equal(files.count.files, 0)
  assert.deepEqual([slow.dataFile.status.state, slow.dataFile.status.behind.events], ['behind', 1])
  await slow.snapshot()
  assert.equal(files.count.files, 1)
  await replaceItem(slow, 2, 2)
  await slow.close()
  assert.equal(files.count.files, 1)
  assert.equal((await shown(place)).a[2]?.n, 0)
})

test('a write during a stop is aborted after five seconds', async (t) => {
  const { place, engine } = await opened(t)
  await replaceItem(engine, 1, 1)
  await engine.close()
  const before = await readFile(place.file, 'utf8')
  const clock = { ms: 0 }
  let closing: Promise<void> | undefined
  const files = countedFiles(() => {
    closing ??= slow.close()
    clock.ms += 1000
  })
  const slow = await open(place, files, {}, () => clock.ms)
  await replaceItem(slow, 2, 2)
  await assert.rejects(slow.snapshot(), { code: 'Unavailable', message: /stays behind/ })
  await closing
  assert.equal(await readFile(place.file, 'utf8'), before)
})

test('a file that is written in place is complete after a stop when the duration of a write is unknown', async (t) => {
  const place = await largeFile(t)
  const mounted = (files: Files): Files => ({
    ...files,
    async exchange() {
      throw Object.assign(new Error('EBUSY'), { code: 'EBUSY' })
    },
  })
  const engine = await open(place, mounted(countedFiles()))
  await replaceItem(engine, 1, 1)
  await engine.snapshot()
  await engine.close()
  const before = await readFile(place.file, 'utf8')
  const files = countedFiles()
  const again = await open(place, mounted(files))
  await replaceItem(again, 2, 2)
  await again.close()
  assert.equal(files.count.files, 0)
  assert.equal(await readFile(place.file, 'utf8'), before)
  const third = await open(place, mounted(countedFiles()))
  assert.equal(third.dataFile.status.behind.events, 1)
  await third.snapshot()
  assert.deepEqual(await shown(place), served(third))
  await third.close()
})

test('a start with a long journal and no data file serves requests before the file is written', async (t) => {
  const { place, engine } = await opened(t)
  await engine.close()
  await rm(place.file)
  await rm(place.file.replace(/db\.json$/, '.recollect/db.json.state'))
  let release = (): void => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const again = await open(
    place,
    countedFiles(() => released),
  )
  assert.equal(again.building(), undefined)
  assert.equal(again.health().status, 'ok')
  await replaceItem(again, 1, 1)
  assert.equal(await stat(place.file).catch(() => undefined), undefined)
  release()
  await until('the file to be there', () => stat(place.file).catch(() => undefined))
  await settled(again)
  const expected = served(again)
  await again.close()
  assert.deepEqual(await shown(place), expected)
})

/** How long a write of the file takes, of simulated time. */
const TAKES_MS = 50
/** How long the replaced file is kept. */
const KEEP_MS = 1000

test('after a write the file rests nine times as long as the write took, even when there was another change meanwhile', async () => {
  const scheduled: { readonly work: () => void; readonly delayMs: number }[] = []
  const files = new SimulatedDisk().files()
  let isSlow = false
  let written = 0
  let ms = 0
  const { engine } = await openTestEngine(
    {
      ...files,
      async exchange(one, other) {
        if (isSlow) {
          await create()
          ms += TAKES_MS
        }
        written++
        return files.exchange(one, other)
      },
    },
    {},
    undefined,
    (work, delayMs) => {
      if (delayMs !== KEEP_MS) scheduled.push({ work, delayMs })
      return { cancel() {} }
    },
    undefined,
    () => ms,
  )
  const create = () =>
    engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, { actor: 'a', requestId: 'r' })
  scheduled.length = 0
  await create()
  const [first, ...others] = scheduled.splice(0)
  assert.ok(first)
  assert.deepEqual(others, [])
  const before = written
  isSlow = true
  first.work()
  await until('the file to be written, and the next time to be set', async () => scheduled.length > 0)
  assert.equal(written, before + 1)
  assert.equal(scheduled.length, 1)
  assert.equal(scheduled[0]?.delayMs, 9 * TAKES_MS)
  await engine.close()
})
