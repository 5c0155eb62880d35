import type { Position } from '../events/event.ts'

/** A position, or another integer below 2 ** 48, big end first, so that bytes have the order of the numbers. */
export const POSITION_BYTES = 6

export function positionOf(bytes: Buffer, offset = 0): Position {
  return bytes.readUInt16BE(offset) * 2 ** 32 + bytes.readUInt32BE(offset + 2)
}

export function putPosition(bytes: Buffer, offset: number, position: Position): void {
  bytes.writeUInt16BE(Math.floor(position / 2 ** 32), offset)
  bytes.writeUInt32BE(position >>> 0, offset + 2)
}
