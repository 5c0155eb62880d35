import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compact, compareStore } from '../../src/cli/store.ts'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { itemsOf } from '../../src/query/collection-snapshot.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'

const ITEMS = 20_000
const ITEM_CHARACTERS = 280
/** The size of the store after half of the items were deleted, as a part of the size before. */
const MOST_LEFT = 0.55
const ORIGIN = { actor: 'a', requestId: 'r' }

/** Which items are deleted, as a filter of a URL. */
const HALVES: Readonly<Record<string, string>> = {
  'the first half': `n_lt=${ITEMS / 2}`,
  'every second one': 'isOdd=true',
}

function readings() {
  const random = new Random(SEED)
  return Array.from({ length: ITEMS }, (_, n) => {
    const time = new Date(1.7e12 + 1000 * n).toISOString()
    const item = { sensor: `s${n % 50}`, time, n, isOdd: n % 2 === 1, value: random.next(), text: '' }
    const left = ITEM_CHARACTERS - JSON.stringify({ id: n, ...item }).length
    // Blocks do not make random text much shorter.
    return { item: { ...item, text: randomText(random, left) } }
  })
}

function randomText(random: Random, length: number): string {
  return Array.from({ length }, () => String.fromCharCode(97 + random.integer(26))).join('')
}

for (const [half, filters] of Object.entries(HALVES)) {
  test(`the store shrinks to 0.55 of its size when ${half} of the items is deleted and it is compacted`, async (t) => {
    const directory = await temporaryDirectory(t)
    const [file, journal] = [join(directory, 'db.json'), join(directory, 'db.journal')]
    const withEngine = async (work: (engine: FileEngine) => Promise<void>): Promise<void> => {
      const { engine, failures } = await openTestEngine(nodeFiles, { file, journal, store: `${journal}/store` })
      await work(engine)
      await engine.close()
      assert.deepEqual(failures, [])
    }
    writeFileSync(file, '{}')
    await withEngine(async ({ handler }) => {
      const items = readings()
      await handler.bulk({ type: 'CreateItems', collection: 'readings', items, isLenient: false }, ORIGIN)
    })
    const full = await compact(nodeFiles, journal)
    let before = 0
    await withEngine(async ({ handler, views }) => {
      before = views.position
      await handler.delete({ type: 'DeleteItems', collection: 'readings', filters }, ORIGIN)
      assert.equal(views.find('readings')?.size, ITEMS / 2)
    })
    const halved = await compact(nodeFiles, journal)
    const ratio = halved.after / full.after
    assert.ok(ratio <= MOST_LEFT, `SEED=${SEED}: ${ratio}, from ${full.after} to ${halved.after} bytes`)
    assert.deepEqual(await compareStore(nodeFiles, journal, () => {}), [])

    await withEngine(async ({ handler, views, past }) => {
      const reading = await past.collection('readings', before)
      assert.equal(Array.from(itemsOf(reading)).length, ITEMS, 'all items are in the past')
      reading.release()
      const deleted = Array.from({ length: ITEMS }, (_, n) => String(n)).find(
        (key) => !views.find('readings')?.item(key),
      )
      const key = deleted as string
      await handler.handle({ type: 'ReplaceItem', collection: 'readings', key, item: { n: 0 } }, ORIGIN)
      assert.equal(views.find('readings')?.item(key)?.revision, 3, 'its revision continues')
    })
  })
}
