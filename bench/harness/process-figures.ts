import { readdirSync, readFileSync } from 'node:fs'
import type { Server } from './servers.ts'

/** The memory of a process that is not mapped from a file: RssAnon of proc(5). */
export function anonymousBytes({ pid }: Pick<Server, 'pid'>): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}

const SECTOR_BYTES = 512
/** The field of a disk's `stat` with the sectors written. */
const WRITTEN = 6

/** Bytes written to all disks of the machine since its start. */
export function writtenBytes(): number {
  const disks = readdirSync('/sys/block').filter((name) => !/^(loop|ram|zram)/.test(name))
  const sectors = disks.map((name) => {
    const fields = readFileSync(`/sys/block/${name}/stat`, 'utf8').trim().split(/\s+/)
    return Number(fields[WRITTEN])
  })
  return sectors.reduce((sum, one) => sum + one, 0) * SECTOR_BYTES
}
