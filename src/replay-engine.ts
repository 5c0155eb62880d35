import { parseUntil, upTo } from './cli/fold.ts'
import type { Engine, EngineSurroundings } from './engine.ts'
import { Refusal } from './errors.ts'
import { EventBus } from './events/bus.ts'
import type { Recorded } from './events/journal.ts'
import { PlayedJournal } from './events/played-journal.ts'
import { walk } from './events/walk.ts'
import { History } from './projections/history.ts'
import { Pace } from './projections/pace.ts'
import { Past } from './projections/past.ts'
import { Queries } from './projections/query/queries.ts'
import { Views } from './projections/views.ts'
import type { Settings } from './settings.ts'

export interface Replay {
  /** A position or an ISO 8601 date-time. */
  readonly from: string
  /** How many times as fast as it happened. */
  readonly speed: number
}

const READ_ONLY = 'This server plays what was recorded: nothing can be written to it.'

/**
 * An engine whose present is the past: it begins with the state as it was, and moves on as it did. The journal is
 * checked, read and left as it is, and a server may be writing to it; what it writes is not played.
 */
export async function openReplayEngine(
  settings: Pick<Settings, 'journal' | 'limits' | 'collections'>,
  { from, speed }: Replay,
  { files, now, elapsedMs, schedule, log, failed }: EngineSurroundings,
): Promise<Engine> {
  const begin = parseUntil(from)
  if (!begin) {
    throw new Refusal('Invalid', `--from must be a position or an ISO 8601 date-time, not ${JSON.stringify(from)}.`)
  }
  const views = Views.temporary()
  const history = new History(views)
  let first: string | undefined
  let last: string | undefined
  let latestMs = Number.NEGATIVE_INFINITY
  const fold = upTo(begin, (recorded) => {
    views.replay(recorded)
    last = recorded.time
  })
  const { id, segments, next } = await walk(files, settings.journal, (recorded) => {
    first ??= recorded.time
    latestMs = Date.parse(recorded.time)
    fold(recorded)
  })
  views.replayed()
  if (id === undefined) throw new Refusal('NotFound', `There is no journal in ${settings.journal}.`)
  // Where the clock was set back, what was recorded is later than now.
  const presentMs = (): number => Math.max(now().getTime(), latestMs)
  if ('ms' in begin && begin.ms > presentMs()) throw new Refusal('Invalid', `--from ${from} is in the future.`)
  const end = next.position - 1
  if ('position' in begin && begin.position > end) {
    throw new Refusal('Invalid', `Position ${begin.position} is beyond the journal's end, ${end}.`)
  }

  const project = (batch: readonly Recorded[]) => views.put(batch)
  const journal = new PlayedJournal({ files, id, segments, head: views.position, end, project })
  const bus = new EventBus()
  bus.subscribe(() => views.show())
  journal.follow((recorded) => bus.publish(recorded))
  const start = views.position
  // Before the first event there is no time to wait for.
  const originMs = 'ms' in begin && last !== undefined ? begin.ms : Date.parse(last ?? first ?? now().toISOString())
  const pace = new Pace({ elapsedMs, schedule }, originMs, speed)
  const present = (): Date => new Date(Math.min(pace.ms, presentMs()))
  log.info({ from: start, until: end, speed }, 'a replay: what was recorded up to now is played')
  const playing = journal
    .play((time) => pace.reach(time))
    .then(
      () => {
        if (journal.head === end) log.info({ position: end }, 'the replay has reached its end, and stays there')
      },
      (error: unknown) => failed(error),
    )
  const refused = (): Promise<never> => Promise.reject(new Refusal('MethodNotAllowed', READ_ONLY))
  return {
    journal,
    views,
    history,
    past: new Past(journal, views, history),
    queries: new Queries({ views, bytes: settings.limits.indexBytes, collections: settings.collections }),
    handler: { handle: refused, bulk: refused, restore: refused },
    bus,
    readOnly: READ_ONLY,
    now: present,
    reload: refused,
    snapshot: refused,
    health: () => ({
      status: 'ok',
      journal: { id, writable: false },
      replay: { speed, from: start, until: end, time: present().toISOString() },
    }),
    async close() {
      pace.end()
      await journal.close()
      await playing
    },
  }
}
