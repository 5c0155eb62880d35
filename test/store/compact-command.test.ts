import assert from 'node:assert/strict'
import fs, { existsSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { storeLeftIn } from '../support/engine.ts'

const KEY = Buffer.from([250])

/** A closed store whose file has free pages. */
async function grown(t: Scope): Promise<string> {
  const path = join(await temporaryDirectory(t), 'store')
  const directory = new StoreDirectory(path)
  const store = directory.open()
  store.transaction(() => store.set(KEY, Buffer.alloc(1024 * 1024, 'g')))
  store.transaction(() => store.set(KEY, Buffer.from('kept')))
  await directory.close(store)
  return path
}

async function checkKept(path: string): Promise<void> {
  const directory = new StoreDirectory(path)
  const store = directory.open()
  assert.equal(directory.whyNot, undefined)
  assert.equal(String(store.newest(KEY)), 'kept')
  await directory.close(store)
}

test('a store that could not be compacted stays usable, and no copy takes the last space of the disk', async (t) => {
  const path = await grown(t)
  t.mock.method(Store.prototype, 'copyTo', async (copy: string) => {
    writeFileSync(copy, 'a part')
    throw new Error('No space left on device')
  })
  for (let attempt = 0; attempt < 3; attempt++) {
    await assert.rejects(new StoreDirectory(path).compact(), /unchanged.*No space left on device/)
    assert.equal(existsSync(join(path, 'store.mdb.compact')), false)
  }
  await checkKept(path)
})

test('a store whose compaction was killed, before or after its file was replaced, is not built again', async (t) => {
  let path = await grown(t)
  const { renameSync } = fs
  const { copyTo } = Store.prototype
  let left: string | undefined
  const copying = t.mock.method(Store.prototype, 'copyTo', function (this: Store, to: string): Promise<void> {
    left = storeLeftIn(path).path
    return copyTo.call(this, to)
  })
  for (let kill = 0; kill < 3; kill++) {
    await new StoreDirectory(path).compact()
    path = left ?? ''
  }
  copying.mock.restore()
  await checkKept(storeLeftIn(path).path)

  const renaming = t.mock.method(fs, 'renameSync', (from: string, to: string) => {
    renameSync(from, to)
    left = storeLeftIn(path).path
  })
  syncBuiltinESMExports()
  const { before, after } = await new StoreDirectory(path).compact()
  renaming.mock.restore()
  syncBuiltinESMExports()
  assert.ok(after < before)
  await checkKept(left ?? '')
})
