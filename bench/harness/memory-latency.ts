const BYTES = 200_000_000
const READS = 2_000_000

/** The duration of a dependent read from memory that is in no cache, in nanoseconds. */
export function memoryLatencyNs(): number {
  const next = new Uint32Array(BYTES / Uint32Array.BYTES_PER_ELEMENT)
  for (let at = 0; at < next.length; at++) next[at] = (at * 7919) % next.length
  const began = performance.now()
  let at = 0
  for (let read = 0; read < READS; read++) at = next[(at + read * 7919) % next.length] as number
  const ns = ((performance.now() - began) * 1e6) / READS
  // The value is used, so that it is read.
  return at < 0 ? 0 : ns
}
