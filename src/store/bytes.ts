import type { Position } from '../events/event.ts'

/** Size of a position, or of another integer below 2 ** 48. Big-endian, so that bytes sort like numbers. */
export const POSITION_BYTES = 6
/** Greater than or equal to all positions and places. */
export const HIGHEST = 2 ** 48 - 1

export function positionOf(bytes: ArrayLike<number>, offset = 0): Position {
  // The result of `readUIntBE`, which is several times slower.
  const high = ((bytes[offset] as number) << 8) | (bytes[offset + 1] as number)
  const middle = ((bytes[offset + 2] as number) << 8) | (bytes[offset + 3] as number)
  const low = ((bytes[offset + 4] as number) << 8) | (bytes[offset + 5] as number)
  return high * 2 ** 32 + middle * 2 ** 16 + low
}

export function putPosition(bytes: Buffer, offset: number, position: Position): void {
  bytes.writeUInt16BE(Math.floor(position / 2 ** 32), offset)
  bytes.writeUInt32BE(position >>> 0, offset + 2)
}

/**
 * Bytes in the buffer of the store, which its next read overwrites. They are no Buffer, so that they cannot be kept
 * without a copy (`Buffer.from`): copying each value makes a page take 6 % longer, and a scan of all items a quarter.
 */
export type ScratchBytes = ArrayLike<number> &
  Pick<Buffer, 'toString' | 'copy' | 'readUInt16BE' | 'readUInt32BE' | 'readDoubleBE'>

export interface Row {
  readonly key: Buffer
  readonly value: Buffer
}

export interface RowsOptions {
  readonly limit?: number
  /** Stops after so many bytes of values. */
  readonly bytes?: number
  readonly reverse?: boolean
}
