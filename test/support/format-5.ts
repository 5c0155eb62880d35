import { crc32 } from 'node:zlib'
import { storedCollections } from '../../src/collections/collection-writer.ts'
import { encodeTombstone, idInRecord, isTombstone, keyOf, metadataOf } from '../../src/collections/item.ts'
import { Table } from '../../src/collections/table.ts'
import { tombstoneBlockOf } from '../../src/collections/tombstones.ts'
import type { Position } from '../../src/events/event.ts'
import { BUCKETS } from '../../src/projections/event-counts.ts'
import {
  blockKey,
  HIGHEST,
  itemEventKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  TAG,
  tableKey,
  tombstonesKey,
} from '../../src/store/keys.ts'
import type { Store } from '../../src/store/store.ts'

/** Where a record has its CRC, what this is of, and the time of the last event. */
const AT = { crc: 6, rest: 10, time: 22 }
const TIME_MS = 1.7e12

/** Changes the rows of a store to those of format 7: each item has a row. In a transaction. */
export function makeFormat7(store: Store): void {
  for (const { table, places } of storedCollections(store).values()) {
    const items = new Table(store, table)
    for (let place = 0; place < places; place++) {
      // Items may have expired.
      if (!items.recordAt(place, HIGHEST)) continue
      const record = items.copyAt(place, HIGHEST)
      if (!isTombstone(record)) store.set(numberedKey(TAG.item, table, place), record)
    }
    const end = prefixEnd(tableKey(TAG.place, table))
    for (const { key } of store.rows(blockKey(table, 0), end)) store.remove(key)
  }
}

/** Changes the rows of a store to those of format 6: the events are not counted. In a transaction. */
export function makeFormat6(store: Store): void {
  makeFormat7(store)
  store.remove(tableKey(TAG.state, 2))
  for (const { table } of Object.values(BUCKETS)) {
    const prefix = tableKey(TAG.time, table)
    for (const { key } of store.rows(prefix, prefixEnd(prefix))) store.remove(key)
  }
}

/**
 * Changes the rows of a store to those of format 5: each deleted item has a record at its place and a row of changes, and
 * the last but one event of each item has a row. In a transaction.
 */
export function makeFormat5(store: Store): void {
  makeFormat6(store)
  for (const [number, { table, places }] of storedCollections(store)) {
    const items = new Table(store, table)
    for (let place = 0; place < places; place++) {
      const tombstone = items.sharedTombstones(place, HIGHEST).get(place)
      if (tombstone) {
        const { position, since } = tombstone
        if (position > since) store.set(numberedKey(TAG.changed, table, position), positionBytes(place))
        const record = encodeTombstone(tombstone)
        putPosition(record, AT.time, TIME_MS)
        record.writeUInt32BE(crc32(record.subarray(AT.rest), position >>> 0), AT.crc)
        store.set(numberedKey(TAG.item, table, place), record)
      }
      // There was no expiry.
      if (!items.recordAt(place, HIGHEST)) continue
      const record = items.copyAt(place, HIGHEST)
      const [key, { prior }] = [keyOf(idInRecord(record)), metadataOf(record)]
      if (prior > 0) store.set(itemEventKey(number, key, prior), positionBytes(positionOf(record)))
    }
    for (let place = 0; place < places; place++) store.remove(tombstonesKey(table, tombstoneBlockOf(place)))
  }
}

function positionBytes(position: Position): Buffer {
  const bytes = Buffer.allocUnsafe(POSITION_BYTES)
  putPosition(bytes, 0, position)
  return bytes
}
