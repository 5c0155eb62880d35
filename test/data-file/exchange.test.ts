import assert from 'node:assert/strict'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { directoryUntilExit, temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import type { SimulatedDisk } from '../support/simulated-files.ts'

const REPLACED = '/data/.recollect/db.json.new'
const FIRST = { things: [0, 1, 2].map((id) => ({ id, n: 0 })) }
const EAGER = { common: { eagerDataReload: true } }
const LAZY = { common: { eagerDataReload: false } }

interface Data {
  readonly things: readonly { readonly id: number; readonly n: number }[]
}

/** The save of an editor that opened the file with these bytes. */
function edited(bytes: Buffer | undefined, id: number, n: number): Buffer {
  const { things } = JSON.parse(String(bytes)) as Data
  return Buffer.from(JSON.stringify({ things: things.map((item) => (item.id === id ? { id, n } : item)) }))
}

async function replace(engine: FileEngine, id: number, n: number): Promise<void> {
  const command = { type: 'ReplaceItem', collection: 'things', key: String(id), item: { n } } as const
  await engine.handler.handle(command, { actor: 'client', requestId: 'r' })
}

/** The events of edits, as `<id>: <n>`. */
async function editsIn(engine: FileEngine): Promise<readonly string[]> {
  const edits: string[] = []
  for await (const { actor, events } of engine.journal.read(1)) {
    if (actor !== 'data-file') continue
    for (const event of events) {
      const { n } = ('item' in event ? event.item.value : {}) as { n?: number }
      if ('id' in event && n) edits.push(`${event.id}: ${n}`)
    }
  }
  return edits
}

async function itemsOf(engine: FileEngine): Promise<readonly number[]> {
  const { things } = Object.fromEntries(snapshotOf(engine.views)) as unknown as Data
  return things.map(({ n }) => n)
}

const shows = (engine: FileEngine, disk: SimulatedDisk) => async () => {
  const file = JSON.parse(String(disk.bytes(DATA_FILE))) as Data
  return (
    engine.dataFile.status.state === 'current' &&
    JSON.stringify(file.things.map(({ n }) => n)) === JSON.stringify(await itemsOf(engine)) &&
    disk.bytes(REPLACED) === undefined
  )
}

const WAYS = [
  ['replaced by a rename', (disk: SimulatedDisk, bytes: Buffer) => disk.put(DATA_FILE, bytes)],
  ['written in place', (disk: SimulatedDisk, bytes: Buffer) => disk.overwrite(DATA_FILE, bytes)],
] as const

/** A disk on which somebody saves an edit at the last moment: between the look at the file and its replacement. */
function raced(disk: SimulatedDisk, save: (disk: SimulatedDisk) => void, stop = Number.POSITIVE_INFINITY) {
  const race = { isOn: false, at: 0 }
  const files = disk.files((operation, path, call) => {
    if (race.isOn && race.at === 0 && operation === 'rename' && path === REPLACED) {
      race.at = call
      save(disk)
    }
    return race.at > 0 && call === race.at + stop ? { type: 'stop' } : undefined
  })
  return { files, race }
}

for (const [how, save] of WAYS) {
  for (const settings of [EAGER, LAZY]) {
    const when = settings === EAGER ? 'by itself' : 'by a reload'
    test(`an edit ${how} between the look at the file and its replacement is merged ${when}`, async () => {
      const disk = diskWith(FIRST)
      const { files, race } = raced(disk, (there) => save(there, edited(there.bytes(DATA_FILE), 0, 7)))
      const { engine } = await openTestEngine(files, settings)
      race.isOn = true
      await replace(engine, 1, 1)
      await until('the file to be replaced', () => race.at > 0)
      if (settings === LAZY) {
        await until('the edit to be seen', () => engine.dataFile.status.state === 'edited')
        assert.deepEqual(disk.bytes(DATA_FILE), edited(Buffer.from(JSON.stringify(FIRST)), 0, 7))
        assert.deepEqual((await engine.reload()).conflicts, [])
      }
      await until('the edit to be merged', shows(engine, disk))
      assert.deepEqual(await itemsOf(engine), [7, 1, 0])
      assert.deepEqual(await editsIn(engine), ['0: 7'])
      await engine.close()
    })
  }
}

test('two edits, one right before the replacement and one right after it, are both merged', async () => {
  const disk = diskWith(FIRST)
  const first = disk.bytes(DATA_FILE)
  let saves = 0
  const files = disk.files((operation, path) => {
    if (saves < 1 || saves > 2 || operation !== 'rename' || path !== REPLACED) return undefined
    // The second is saved when the first is about to be put back.
    disk.put(DATA_FILE, saves === 1 ? edited(first, 0, 7) : edited(disk.bytes(DATA_FILE), 2, 8))
    saves++
    return undefined
  })
  const { engine } = await openTestEngine(files, EAGER)
  saves = 1
  await replace(engine, 1, 1)
  await until('both to be saved', () => saves === 3)
  await until('both to be merged', shows(engine, disk))
  assert.deepEqual(await itemsOf(engine), [7, 1, 8])
  assert.deepEqual([...(await editsIn(engine))].sort(), ['0: 7', '2: 8'])
  await engine.close()
})

test('killed at any call after an edit that came right before the replacement, the next start merges the edit', async () => {
  for (const [how, save] of WAYS) {
    let isEnded = false
    for (let stop = 0; !isEnded; stop++) {
      const context = `${how}, stopped ${stop} calls after the edit`
      const disk = diskWith(FIRST)
      const store = directoryUntilExit()
      const { files, race } = raced(disk, (there) => save(there, edited(there.bytes(DATA_FILE), 0, 7)), stop)
      let acknowledged = false
      let isStopped = false
      void files.stopped.then(() => {
        isStopped = true
      })
      const running = (async () => {
        const { engine } = await openTestEngine(files, { ...EAGER, store: store.path })
        race.isOn = true
        await replace(engine, 1, 1)
        acknowledged = true
        await until('the edit to be merged', async () => isStopped || (await shows(engine, disk)()))
        if (isStopped) return
        await engine.close()
        isEnded = true
      })()
      await Promise.race([running, files.stopped])
      await store.remove()
      const left = disk.killed()
      assert.doesNotThrow(() => JSON.parse(String(left.bytes(DATA_FILE))), `${context}: there is a whole data file`)
      const { engine } = await openTestEngine(left.files(), EAGER)
      await until(`${context}: the edit to be merged`, shows(engine, left))
      assert.deepEqual(await itemsOf(engine), [7, acknowledged ? 1 : 0, 0], context)
      assert.deepEqual(await editsIn(engine), ['0: 7'], context)
      await engine.close()
    }
  }
})

test('where the file system cannot exchange files, the data file is replaced by a rename', async () => {
  const disk = diskWith(FIRST)
  const { engine } = await openTestEngine({ ...disk.files(), exchange: async () => false })
  await replace(engine, 1, 1)
  await until('the file to be current', shows(engine, disk))
  assert.deepEqual(await itemsOf(engine), [0, 1, 0])
  await engine.close()
})

test('on a real disk an edit right before the replacement is merged', async (t) => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'db.json')
  await writeFile(file, JSON.stringify(FIRST))
  const saves: (() => Promise<void>)[] = []
  const { engine } = await openTestEngine(
    {
      ...nodeFiles,
      async exchange(one, other) {
        if (other === file) await saves.shift()?.()
        return nodeFiles.exchange(one, other)
      },
    },
    { ...EAGER, file, journal: join(directory, 'db.journal') },
  )
  const save = async (id: number, n: number, write: (bytes: Buffer) => Promise<void>) => {
    const bytes = edited(await readFile(file), id, n)
    saves.push(() => write(bytes))
    await replace(engine, 1, n)
    await until('the edit to be merged', async () => (await itemsOf(engine))[id] === n)
    assert.equal((await itemsOf(engine))[1], n)
  }
  await save(0, 7, (bytes) => writeFile(file, bytes))
  await save(2, 8, async (bytes) => {
    await writeFile(`${file}~`, bytes)
    await rename(`${file}~`, file)
  })
  const served = Object.fromEntries(snapshotOf(engine.views))
  await engine.close()
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), served)
  assert.deepEqual((await readdir(directory)).sort(), ['.recollect', 'db.journal', 'db.json'])
})
