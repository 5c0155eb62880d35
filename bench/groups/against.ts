import { join } from 'node:path'
import { type Bench, type Group, interleaved, rateOf } from '../harness/bench.ts'
import { type Row, type Series, times } from '../harness/figures.ts'
import type { Sent } from '../harness/load.ts'
import type { Server } from '../harness/servers.ts'
import { itemsOf } from './get.ts'
import { QUERIES } from './query.ts'
import { posts, puts } from './writes.ts'

/** How a request is made of a collection of so many readings, and the part of the other's rate that is to be reached. */
const WORKS: Readonly<
  Record<string, { readonly requests: (count: number) => readonly Sent[]; readonly goal: number }>
> = {
  'GET item': { requests: itemsOf, goal: 0.9 },
  'durable POST': { requests: () => posts('/api/readings'), goal: 0.75 },
  'durable PUT': { requests: () => puts('/api/readings/'), goal: 0.75 },
  ...Object.fromEntries(Object.entries(QUERIES).map(([work, requests]) => [work, { requests, goal: 0.8 }])),
}

const OURS = 'Recollect'
const THEIRS = 'the other'

export const against: Group = {
  name: 'against',
  about: 'Recollect against another build of it: --against <its directory>, which has been built',
  async measure(bench) {
    const { items, against: directory } = bench
    if (directory === undefined) throw new Error('Give the directory of the other build: --against <directory>.')
    const server = {
      [OURS]: await start(bench),
      [THEIRS]: await start(bench, join(directory, 'dist', 'main.js')),
    }
    const contestants: Record<string, () => Promise<number>> = {}
    for (const [work, { requests }] of Object.entries(WORKS)) {
      for (const [name, { url }] of Object.entries(server)) {
        contestants[`${name}: ${work}`] = await rateOf(bench, url, requests(items))
      }
    }
    const measured = await interleaved(bench, 'req/s', contestants)
    await Promise.all(Object.values(server).map((one) => one.stop()))
    return Object.entries(WORKS).map(([work, { goal }]): Row => {
      const theirs = { ...(measured[`${THEIRS}: ${work}`] as Series), name: directory }
      return {
        work: `${work}, ${items.toLocaleString('en-US')} items`,
        ours: measured[`${OURS}: ${work}`] as Series,
        better: 'more',
        goals: [times(theirs, goal)],
        others: [theirs],
      }
    })
  },
}

async function start({ servers, fixtures, items }: Bench, main?: string): Promise<Server> {
  const file = join(await fixtures.directory(), 'db.json')
  // The other build may not know the setting. The journal of the fixture was not compressed yet.
  const flags = main ? [] : ['--Journal.Compress', 'off']
  return servers.recollect({ file, journal: await fixtures.ownJournal(items), flags }, { ...(main && { main }) })
}
