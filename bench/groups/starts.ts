import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, type Contestants, type Group, interleaved } from '../harness/bench.ts'
import { type Series, times } from '../harness/figures.ts'
import { run } from '../harness/load.ts'
import { settled } from '../harness/servers.ts'

const FLOOR = fileURLToPath(new URL('../harness/floor.mjs', import.meta.url))
const IS_JOURNAL = /^(?:\d{20}\.ndjson|lock)$/

export const starts: Group = {
  name: 'starts',
  about: 'the start with a million events, with and without a store',
  async measure(bench) {
    const { fixtures, servers, items } = bench
    const directory = await fixtures.ownJournal(items)
    const file = join(await fixtures.directory(), 'db.json')
    const whole = await servers.recollect({ file, journal: directory })
    await settled(whole)
    await whole.stop()
    const start = async (): Promise<number> => {
      const began = performance.now()
      const server = await servers.recollect({ file, journal: directory }, { settle: false })
      await settled(server)
      const seconds = (performance.now() - began) / 1000
      await server.stop()
      return seconds
    }
    const contestants: Contestants = {
      'read + crc + JSON.parse + Map.set': () => floorSeconds(directory),
      'without a store': async () => {
        await forget(directory)
        return start()
      },
      // The start before it left one. A copied store would be built again, as it may have been changed.
      'with a store': start,
    }
    const measured = await interleaved(bench, 's', contestants)
    const of = (name: string) => measured[name] as Series
    const floor = of('read + crc + JSON.parse + Map.set')
    const count = items.toLocaleString('en-US')
    const note = 'Until the server has compared its data file; the other one is a thread that reads the same segments.'
    return [
      {
        work: `start with ${count} events, no store`,
        ours: of('without a store'),
        better: 'less',
        goals: [times(floor, 1.2, 'at most')],
        others: [floor],
        note,
      },
      {
        work: `start with a store, ${count} items`,
        ours: of('with a store'),
        better: 'less',
        goals: [times(floor, 0.6, 'at most')],
        others: [floor],
      },
    ]
  },
}

/** Removes everything but the segments. */
async function forget(journal: string): Promise<void> {
  for (const name of await readdir(journal)) {
    if (!IS_JOURNAL.test(name)) await rm(join(journal, name), { recursive: true })
  }
}

async function floorSeconds(directory: string): Promise<number> {
  const began = performance.now()
  await run(process.execPath, ['--max-old-space-size=8192', FLOOR, 'replay', directory], 120_000)
  return (performance.now() - began) / 1000
}

/** The memory of so many readings as parsed objects in a Map. */
export async function parsedBytes({ fixtures, items }: Bench): Promise<number> {
  const flags = ['--expose-gc', '--max-old-space-size=8192', FLOOR, 'parsed', await fixtures.lines(items)]
  return (JSON.parse(await run(process.execPath, flags, 120_000)) as { readonly heapBytes: number }).heapBytes
}
