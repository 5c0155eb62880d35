import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Lmdb, META, metaOf, openLmdb, synced, usedBytes } from '../../src/store/lmdb.ts'
import { within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'

/** Results of public functions of LMDB. */
interface Stats {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly lastTxnId: number
}

function put(db: Lmdb, rows: number): void {
  db.transactionSync(() => {
    for (let row = 0; row < rows; row++) db.put(Buffer.from(`key ${row}`), Buffer.alloc(500))
  })
}

test('the private parts of LMDB that the store reads are where this version has them', async (t) => {
  const path = join(await temporaryDirectory(t), 'a.mdb')
  const db = openLmdb(path)
  t.after(() => db.close())
  for (const rows of [1, 100, 3000]) {
    put(db, rows)
    const { pageSize, lastPageNumber, lastTxnId } = db.getStats() as Stats
    const bytes = readFileSync(path)
    const pages = [bytes, bytes.subarray(pageSize)]
    const transactions = pages.map((page) => Number(page.readBigUInt64LE(META.transaction)))
    const newest = pages[transactions.indexOf(lastTxnId)]
    assert.ok(newest, `${transactions} are the transactions of the meta pages, and ${lastTxnId} was the last`)
    assert.equal(newest.readUInt32LE(META.pageBytes), pageSize)
    assert.equal(Number(newest.readBigUInt64LE(META.lastPage)), lastPageNumber)
    // A page begins with its own number.
    const root = Number(newest.readBigUInt64LE(META.mainRoot))
    assert.equal(Number(bytes.readBigUInt64LE(root * pageSize)), root)
    assert.equal(metaOf(path)?.bytes, (lastPageNumber + 1) * pageSize)
    assert.ok(usedBytes(db) > rows * 500 && usedBytes(db) < statSync(path).size)
  }
  await within('a sync', synced(db))
})
