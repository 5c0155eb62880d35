import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { contentOf } from '../../src/data-file/file-content.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const PATH = '/data/db.json'

test('a file that is replaced during a read is read again', async () => {
  for (const operation of ['stat', 'open', 'read'] as const) {
    const disk = new SimulatedDisk()
    disk.put(PATH, Buffer.from('{"a":[]}'))
    let times = 0
    const files = disk.files((asked, path) => {
      if (asked === operation && path === PATH && ++times === 1) disk.put(PATH, Buffer.from('{"a":[{"id":1}]}'))
      return undefined
    })
    const room = Buffer.alloc(1000)
    let bytes = 0
    await contentOf(files, PATH, async (read) => {
      bytes = await read(room)
    })
    assert.equal(room.toString('utf8', 0, bytes), '{"a":[{"id":1}]}', operation)
  }
})

test('a file that is removed during a read counts as missing', async () => {
  const disk = new SimulatedDisk()
  disk.put(PATH, Buffer.from('{}'))
  const others = disk.files()
  const files = {
    ...disk.files(),
    open: async (...args: Parameters<typeof others.open>) => {
      await others.remove(PATH)
      return others.open(...args)
    },
  }
  assert.equal(await contentOf(files, PATH), undefined)
})

test('a file that changes during every read is rejected, and not retried forever', async () => {
  const disk = new SimulatedDisk()
  let versions = 0
  const change = () => disk.put(PATH, Buffer.from(`{"a":[{"id":${++versions}}]}`))
  change()
  const files = disk.files((asked) => {
    if (asked === 'read') change()
    return undefined
  })
  await assert.rejects(contentOf(files, PATH), { code: 'Unavailable', message: /db\.json keeps changing/ })
})

test('a file that grows during every read is rejected, and not read forever', async (t) => {
  const path = join(await temporaryDirectory(t), 'db.json')
  await writeFile(path, '{"a":[]}')
  let readings = 0
  const files: Files = {
    ...nodeFiles,
    async open(...args) {
      const file = await nodeFiles.open(...args)
      return {
        ...file,
        async read(buffer, position) {
          readings++
          appendFileSync(path, ' '.repeat(100))
          return file.read(buffer, position)
        },
      }
    },
  }
  await assert.rejects(contentOf(files, path), { code: 'Unavailable', message: /db\.json keeps changing/ })
  assert.ok(readings <= 20, `${readings} readings`)
})

/** An engine whose file, as somebody edits it, becomes another one just before it is opened for the second time. */
async function editedMeanwhile(edit: string, then: (disk: SimulatedDisk) => void) {
  const disk = diskWith('{"a":[{"id":1,"n":0}]}')
  let openings = Number.NaN
  const files = disk.files((operation, path) => {
    if (operation === 'open' && path === DATA_FILE && ++openings === 2) then(disk)
    return undefined
  })
  const { engine } = await openTestEngine(files)
  await until('the file to be written', () => engine.dataFile.status.state === 'current')
  disk.put(DATA_FILE, Buffer.from(edit))
  openings = 0
  return { disk, engine }
}

test('an edit that changes during its merge is merged in its last state', async () => {
  const { engine } = await editedMeanwhile('{"a":[{"id":1,"n":1}]}', (disk) => {
    disk.put(DATA_FILE, Buffer.from('{"a":[{"id":1,"n":2},{"id":2}]}'))
  })
  assert.equal((await engine.dataFile.reload()).events, 2)
  assert.deepEqual(snapshotOf(engine.views).get('a'), [{ id: 1, n: 2 }, { id: 2 }])
  await engine.close()
})

test('an edit that becomes invalid during its merge is rejected with the place in the new content', async () => {
  const { engine } = await editedMeanwhile('{"a":[{"id":1,"n":1}]}', (disk) => {
    disk.put(DATA_FILE, Buffer.from('{"a":[{"id":1,"n":}]}'))
  })
  await assert.rejects(engine.dataFile.reload(), { code: 'Unprocessable', message: /line 1, column 19/ })
  assert.deepEqual(snapshotOf(engine.views).get('a'), [{ id: 1, n: 0 }])
  await engine.close()
})

test('a file that is removed during its merge is reported as missing, and written again', async () => {
  const { disk, engine } = await editedMeanwhile('{"a":[]}', (gone) => gone.take(DATA_FILE))
  await assert.rejects(engine.dataFile.reload(), { code: 'Unavailable', message: /was removed while it was read/ })
  await until('the file to be there', () => disk.bytes(DATA_FILE))
  assert.deepEqual(snapshotOf(engine.views).get('a'), [{ id: 1, n: 0 }])
  await engine.close()
})

test('a collection of at least a thousand items has one item a line, a smaller one is indented like JSON.stringify', async () => {
  const disk = new SimulatedDisk()
  const many = Array.from({ length: 1000 }, (_, id) => ({ id, data: { n: id, list: [1, { a: 'ü' }] } }))
  const few = many.slice(1)
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ few, many, none: [] })))
  const { engine } = await openTestEngine(disk.files())
  assert.equal(await engine.snapshot(), engine.journal.head)
  await engine.handler.handle({ type: 'DeleteItem', collection: 'few', key: '1' }, { actor: 'a', requestId: 'r' })
  await engine.snapshot()
  const text = String(disk.bytes(DATA_FILE))
  const lines = many.map((item) => `    ${JSON.stringify(item)}`).join(',\n')
  const rest = JSON.stringify({ few: few.slice(1), many: [], none: [] }, null, 2)
  assert.equal(text, `${rest.replace('"many": []', `"many": [\n${lines}\n  ]`)}\n`)
  await engine.close()
})
