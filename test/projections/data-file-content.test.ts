import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readContent } from '../../src/projections/data-file/adapter.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const PATH = '/data/db.json'

test('a file that is replaced while it is read is read again: its content is what is there in the end', async () => {
  for (const operation of ['stat', 'open', 'read'] as const) {
    const disk = new SimulatedDisk()
    disk.put(PATH, Buffer.from('{"a":[]}'))
    let times = 0
    const files = disk.files((asked, path) => {
      if (asked === operation && path === PATH && ++times === 1) disk.put(PATH, Buffer.from('{"a":[{"id":1}]}'))
      return undefined
    })
    const read = await readContent(files, PATH)
    assert.equal(read?.bytes.toString(), '{"a":[{"id":1}]}', operation)
    assert.equal(read.content.signature, (await disk.files().stat(PATH))?.signature, operation)
  }
})

test('a file that goes while it is read is not there', async () => {
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
  assert.equal(await readContent(files, PATH), undefined)
})

test('a file that changes whenever it is looked at is refused, and not read for ever', async () => {
  const disk = new SimulatedDisk()
  let versions = 0
  const change = () => disk.put(PATH, Buffer.from(`{"a":[{"id":${++versions}}]}`))
  change()
  const files = disk.files((asked) => {
    if (asked === 'read') change()
    return undefined
  })
  await assert.rejects(readContent(files, PATH), { code: 'Unavailable', message: /db\.json is being written to/ })
})
