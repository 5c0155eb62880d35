import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

/** Opens, lets the data file be written, and closes; resolves with how often the data file was opened or read. */
async function started(disk: SimulatedDisk, change: boolean): Promise<{ reads: number; events: number }> {
  let reads = 0
  const files = disk.files((operation, path) => {
    if (path === DATA_FILE && (operation === 'open' || operation === 'read')) reads++
    return undefined
  })
  const { engine } = await openTestEngine(files)
  const opening = reads
  const { head } = engine.journal
  const command = { type: 'CreateItem', collection: 'a', item: {} } as const
  if (change) await engine.handler.handle(command, { actor: 'a', requestId: 'r' })
  await until('the data file to be current', async () => engine.dataFile.status.state === 'current')
  await engine.close()
  return { reads: opening, events: head }
}

test('an imported data file, or one recognized by its content, is not read at the next start', async () => {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from('{"a":[{"id":0}]}'))
  assert.ok((await started(disk, false)).reads > 0)
  assert.equal((await started(disk, false)).reads, 0)
  const killed = disk.killed()
  assert.equal((await started(killed, false)).reads, 0)
  killed.put(DATA_FILE, killed.bytes(DATA_FILE) as Buffer)
  assert.ok((await started(killed, false)).reads > 0, 'a copy is another file')
  assert.equal((await started(killed, false)).reads, 0)
})

test('only an edited data file is read at the next start', async () => {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from('{"a":[{"id":0}]}'))
  await started(disk, true)
  assert.equal((await started(disk, true)).reads, 0)
  const data = JSON.parse(String(disk.bytes(DATA_FILE))) as { a: unknown[] }
  data.a.push({ id: 9 })
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(data)))
  const edited = await started(disk, false)
  assert.ok(edited.reads > 0)
  assert.equal(edited.events, 5)
  disk.put(DATA_FILE, disk.bytes(DATA_FILE) as Buffer)
  assert.ok((await started(disk, false)).reads > 0, 'a copy is another file, whatever it holds')
})
