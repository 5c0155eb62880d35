import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { segmentName } from '../../src/events/segment.ts'
import { RecoveryFile } from '../../src/store/recovery-file.ts'
import { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { diskWith, JOURNAL, openTestEngine } from '../support/engine.ts'

/** The store is synced so often. */
const SYNC_MS = 5000
const ORIGIN = { actor: 'a', requestId: 'r' }

test('a slow sync of the store is not joined by others, which would occupy all threads that write the journal', async (t) => {
  const store = await temporaryDirectory(t)
  let begun = 0
  let finish = (): void => {}
  t.mock.method(Store.prototype, 'sync', () => {
    begun++
    return new Promise<void>((resolve) => {
      finish = resolve
    })
  })
  const { engine, failures } = await openTestEngine(
    diskWith('{"a":[]}').files(),
    { store },
    undefined,
    undefined,
    SYNC_MS + 1,
  )
  await until('the store to be synced', () => begun === 1)
  for (let n = 0; n < 5; n++) {
    await engine.handler.handle({ type: 'CreateItem', collection: 'a', item: { n } }, ORIGIN)
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
  assert.equal(begun, 1)
  finish()
  await until('later writes to be synced', () => begun === 2)
  t.mock.restoreAll()
  finish()
  await engine.close()
  assert.deepEqual(failures, [])
})

test('the journal stays locked until the store is closed', async (t) => {
  const store = await temporaryDirectory(t)
  const files = diskWith('{"a":[]}').files()
  let isClosed: boolean | undefined
  const lock: typeof files.lock = async (path) => {
    const held = await files.lock(path)
    if (!held) return undefined
    const release = (): Promise<void> => {
      isClosed = new RecoveryFile(join(store, 'recovery-point')).read()?.writtenMs !== undefined
      return held.release()
    }
    return { release }
  }
  const { engine, failures } = await openTestEngine({ ...files, lock }, { store })
  await engine.close()
  assert.equal(isClosed, true)
  assert.deepEqual(failures, [])
})

test('without a file descriptor the journal is verified later, and the service does not end', async (t) => {
  const store = await temporaryDirectory(t)
  const disk = diskWith('{"a":[]}')
  const first = await openTestEngine(disk.files(), { store, segmentBytes: 1024 })
  for (let n = 0; n < 30; n++) {
    await first.engine.handler.handle({ type: 'CreateItem', collection: 'a', item: { n } }, ORIGIN)
  }
  await first.engine.close()
  const path = `${JOURNAL}/${segmentName(1)}`
  const bytes = Buffer.from(disk.bytes(path) as Buffer)
  bytes[bytes.length - 20] = (bytes[bytes.length - 20] as number) ^ 1
  disk.put(path, bytes)
  let opens = 0
  // The start opens the segment once; the second time it is verified.
  const files = disk.files((operation, opened) =>
    operation === 'open' && opened === path && ++opens > 1 && opens < 5 ? { type: 'error', code: 'EMFILE' } : undefined,
  )
  const { engine, failures } = await openTestEngine(
    files,
    { store, segmentBytes: 1024 },
    undefined,
    undefined,
    SYNC_MS + 1,
  )
  await until('the damage to be found', () => engine.health().journal.damage)
  assert.equal(opens, 5)
  await engine.close()
  assert.deepEqual(failures, [])
})

test('without a file descriptor the recovery point stays, and advances later', async (t) => {
  const directory = new StoreDirectory(join(await temporaryDirectory(t), 'store'))
  const store = directory.open()
  store.transaction(() => store.set(Buffer.from('a'), Buffer.from('1')))
  const opening = t.mock.method(fs, 'openSync', () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
  })
  syncBuiltinESMExports()
  assert.equal(await directory.advance(store), false)
  opening.mock.restore()
  syncBuiltinESMExports()
  assert.equal(await directory.advance(store), true)
  await directory.close(store)
  assert.equal(directory.whyNotUsable(), undefined)
})

test('while the recovery point cannot be written, no more than two commits stay pinned', async (t) => {
  const directory = new StoreDirectory(join(await temporaryDirectory(t), 'store'))
  const store = directory.open()
  const pinNewest = store.pinNewest.bind(store)
  let pinned = 0
  store.pinNewest = () => {
    const pin = pinNewest()
    if (!pin) return undefined
    pinned++
    let isPinned = true
    const release = (): void => {
      if (isPinned) pinned--
      isPinned = false
      pin.release()
    }
    return { meta: pin.meta, release }
  }
  const write = (n: number): void => store.transaction(() => store.set(Buffer.from('a'), Buffer.from(String(n))))
  write(0)
  assert.equal(await directory.advance(store), true)
  t.mock.method(RecoveryFile.prototype, 'write', async () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  })
  for (let n = 1; n < 5; n++) {
    write(n)
    assert.equal(await directory.advance(store), false)
    assert.equal(pinned, 2)
  }
  t.mock.restoreAll()
  assert.equal(await directory.advance(store), true)
  assert.equal(pinned, 1)
  await directory.close(store)
  const again = directory.open()
  assert.equal(String(again.newest(Buffer.from('a'))), '4')
  await directory.close(again)
})
