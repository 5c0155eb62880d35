import type { Recorded } from '../events/journal.ts'
import { PlayedJournal } from '../events/played-journal.ts'
import { walk } from '../events/walk.ts'
import { parseUntil, upTo } from '../projections/journal-fold.ts'
import { Pace } from '../projections/pace.ts'
import { Views } from '../projections/views.ts'
import { Queries } from '../query/queries.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import type { JournalHost } from './engine.ts'
import { tokensInDirectory } from './open-gate.ts'
import { Projections } from './projections.ts'

export interface Replay {
  /** A position or an ISO 8601 date-time. */
  readonly from: string
  /** The speed as a multiple of the recorded pace. */
  readonly speed: number
}

const READ_ONLY = 'This server plays what was recorded: nothing can be written to it.'

/**
 * A host whose present is the past: it begins with the state at `from`, and advances in recorded time. The journal is
 * verified and read, but not changed; a server may be writing to it, and later events are not replayed.
 */
export async function openReplayHost(
  settings: Pick<Settings, 'journal' | 'limits' | 'collections'>,
  { from, speed }: Replay,
  { files, now, elapsedMs, schedule, log, failed }: EngineDependencies,
): Promise<JournalHost> {
  const begin = parseUntil(from)
  if (!begin) {
    throw new Refusal('Invalid', `--from must be a position or an ISO 8601 date-time, not ${JSON.stringify(from)}.`)
  }
  const projections = new Projections(Views.temporary())
  const { views } = projections
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
  // If the clock was set back, recorded times may be later than now.
  const presentMs = (): number => Math.max(now().getTime(), latestMs)
  if ('ms' in begin && begin.ms > presentMs()) throw new Refusal('Invalid', `--from ${from} is in the future.`)
  const end = next.position - 1
  if ('position' in begin && begin.position > end) {
    throw new Refusal('Invalid', `Position ${begin.position} is beyond the journal's end, ${end}.`)
  }

  const project = (batch: readonly Recorded[]) => views.put(batch)
  const journal = new PlayedJournal({ files, id, segments, head: views.position, end, project })
  projections.follow(journal)
  const start = views.position
  // Before the first event there is no time to wait for.
  const originMs = 'ms' in begin && last !== undefined ? begin.ms : Date.parse(last ?? first ?? now().toISOString())
  const pace = new Pace({ elapsedMs, schedule }, originMs, speed)
  const present = (): Date => new Date(Math.min(pace.ms, presentMs()))
  log.info({ from: start, until: end, speed }, 'a replay: what was recorded up to now is played')
  const play = async (): Promise<void> => {
    try {
      await journal.play((time) => pace.reach(time))
      if (journal.head === end) log.info({ position: end }, 'the replay has reached its end, and stays there')
    } catch (error) {
      failed(error)
    }
  }
  let playing: Promise<void> | undefined
  const refused = (): Promise<never> => Promise.reject(new Refusal('MethodNotAllowed', READ_ONLY))
  return {
    journal,
    projections,
    past: projections.past(journal),
    queries: new Queries({ views, bytes: settings.limits.indexBytes, collections: settings.collections }),
    handler: { handle: refused, bulk: refused, restore: refused },
    figures: [],
    readOnly: READ_ONLY,
    tokens: tokensInDirectory(files, settings.journal, true),
    warnings: [],
    now: present,
    verify() {
      throw new Refusal('NotFound', 'This server has no journal of its own to check.')
    },
    reload: refused,
    snapshot: refused,
    async start() {
      playing = play()
    },
    patience: () => new Promise(() => {}),
    healthOf: () => ({
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
