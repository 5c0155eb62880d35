/** Descriptors for the program itself, the journal, the data file, the store and searches. */
const RESERVED = 48
const LEAST = 8

/** How the descriptors that the process may open are shared out. */
export interface Descriptors {
  readonly connections: number
  /** Files of `wwwroot` and `/swagger/` that are being sent. */
  readonly files: number
}

/** `limit` is the process's own, `ulimit -n`. Where it is too low, the least is given and may not be there. */
export function shareDescriptors(limit: number): Descriptors {
  const files = Math.max(LEAST, Math.floor(limit / 8))
  return { connections: Math.max(LEAST, limit - RESERVED - files), files }
}
