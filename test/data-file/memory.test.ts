import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Memory } from '../../src/runtime/memory.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { until } from '../support/deadline.ts'
import { DATA_FILE, diskWith, openTestEngine, SETTINGS } from '../support/engine.ts'

const MEMORY_BYTES = 200_000
const ITEMS = 2000
const LIMITS = { ...SETTINGS.limits, memoryBytes: MEMORY_BYTES }
const MANY = Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0 }))

async function engineWithLittleMemory(settings: Partial<Settings> = {}) {
  const disk = diskWith({ many: MANY })
  const opened = await openTestEngine(disk.files(), { limits: LIMITS, ...settings })
  const edit = (many: readonly object[]): void => disk.put(DATA_FILE, Buffer.from(JSON.stringify({ many })))
  return { ...opened, edit }
}

test('first items that do not fit into memory at once are imported in parts', async () => {
  const { engine, memory } = await engineWithLittleMemory()
  assert.equal(engine.views.find('many')?.size, ITEMS)
  assert.equal(memory.held('edits'), 0)
  await engine.close()
})

test('an edit of more changes than fit into memory is refused, and nothing of it is merged', async () => {
  const { engine, memory, edit } = await engineWithLittleMemory()
  const { head } = engine.journal
  for (const changed of [MANY.map(({ id }) => ({ id, n: 1 })), MANY.slice(0, 100), [...MANY].reverse()]) {
    edit(changed)
    await assert.rejects(engine.reload(), { code: 'Unprocessable', message: /Nothing of the edit/ })
    assert.equal(engine.journal.head, head)
    assert.equal(engine.dataFile.status.state, 'invalid')
    assert.equal(memory.held('edits'), 0)
  }
  edit(MANY.map(({ id, n }) => ({ id, n: id < 50 ? 1 : n })))
  assert.equal((await engine.reload()).events, 50)
  await engine.close()
})

for (const eagerDataReload of [false, true]) {
  const how = eagerDataReload ? 'by itself' : 'on request'
  test(`an edit for which memory is in use is not invalid, and is merged ${how} when it is free`, async () => {
    const { engine, memory, edit } = await engineWithLittleMemory({ common: { eagerDataReload } })
    const other = new Memory(memory, 'queries')
    other.hold(MEMORY_BYTES - 1000)
    edit(MANY.map(({ id, n }) => ({ id, n: id < 100 ? 1 : n })))
    await assert.rejects(engine.reload(), { code: 'Unavailable', message: /Limits\.MemoryBytes.*try again/ })
    const { state, detail } = engine.dataFile.status
    assert.equal(state, 'edited')
    assert.match(detail as string, /try again/)
    other.release()
    if (!eagerDataReload) assert.equal((await engine.reload()).events, 100)
    await until('the edit to be merged', () => engine.views.find('many')?.item('99')?.value.n === 1)
    await until('the file to be current', () => engine.dataFile.status.state === 'current')
    await engine.close()
  })
}
