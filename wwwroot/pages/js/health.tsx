// How the journal is: where it ends, how far others are behind it, its files, and whether all of it is intact.
import { signal } from '@preact/signals'
import { changes, client, health, may, readHealth } from './app.ts'
import { bytes, count, counted, span, visible } from './format.ts'
import { resource } from './resource.ts'

/** The parts of `/health` beside those that the client describes; `detail` and `damage` are for admins. */
interface Details {
  readonly journal: {
    readonly id: string
    readonly writable: boolean
    readonly segments?: readonly { readonly first: number; readonly size: number; readonly compressed: boolean }[]
    readonly damage?: { readonly places: number; readonly repair: string }
  }
  readonly dataFile?: { readonly state: keyof typeof DATA_FILE; readonly position: number; readonly detail?: string }
  readonly store?: {
    readonly state: string
    readonly bytes: number
    readonly secondsLeft?: number
    readonly detail?: string
  }
  readonly cluster?: {
    readonly role: string
    readonly node: string
    readonly lag: number
    readonly isConnected: boolean
  }
  readonly indexing?: number
  readonly warnings?: readonly string[]
}

const REFRESH_MS = 2000
const MOST_SEGMENTS = 100
const STATUS = {
  ok: 'All is well',
  degraded: 'Works, but something needs attention',
  unavailable: 'Takes no writes',
} as const
const DATA_FILE = {
  current: 'shows the newest state',
  behind: 'is about to be written',
  merging: 'was edited: the edit is being read',
  edited: 'was edited: the edit is not read yet',
  invalid: 'was edited, and has mistakes',
  failing: 'cannot be written',
} as const

/** Read again as the journal grows. Its value is that of the page's `health`. */
const read = resource(() => changes.value || undefined, readHealth, REFRESH_MS)

/** How a check of the journal is; undefined: nobody has asked for it. */
const check = signal<{ readonly text: string; readonly share?: number; readonly isBad?: boolean }>()

export function Health() {
  void read.value.value
  const shown = health.value
  if (!shown) return <section id="health" class="card health" aria-label="The journal's health" />
  const { status, position, readOnly } = shown
  const { journal, dataFile, store, cluster, indexing, warnings = [] } = shown as unknown as Details
  const behind = dataFile?.state === 'behind' ? position - dataFile.position : 0
  const facts: readonly (readonly [name: string, value: string | false | undefined, kind?: string])[] = [
    ['State', STATUS[status], `badge ${status}`],
    ['Last position', count(position)],
    ['Writes', readOnly ? 'refused: the server is read-only' : journal.writable ? 'accepted' : 'refused'],
    ['Data file', dataFile && (behind > 0 ? `${counted(behind, 'event')} behind` : DATA_FILE[dataFile.state])],
    ['Store', store && `${store.state}, ${bytes(store.bytes)}`],
    ['Store ready in', store?.secondsLeft !== undefined && span(store.secondsLeft)],
    ['Indexes', indexing !== undefined && `${Math.round(indexing * 100)} % built`],
    ['This node', cluster && `${visible(cluster.node)}, ${cluster.role}${cluster.isConnected ? '' : ', disconnected'}`],
    ['Node is', cluster && cluster.lag > 0 && `${counted(cluster.lag, 'event')} behind`],
    ['Journal', journal.id, 'mono'],
  ]
  const notes = [
    dataFile?.detail,
    store?.detail,
    journal.damage && `${counted(journal.damage.places, 'damaged place')}: run ${journal.damage.repair}`,
    ...warnings,
  ].filter((one) => one !== undefined)
  return (
    <section id="health" class="card health" aria-labelledby="health-title">
      <h2 id="health-title">The journal's health</h2>
      <dl class="facts number">
        {facts.map(
          ([name, value, kind = '']) =>
            value && (
              <div key={name}>
                <dt>{name}</dt>
                <dd class={`break ${kind}`}>{value}</dd>
              </div>
            ),
        )}
      </dl>
      {notes.map((note) => (
        <p key={note} class="note warn break">
          {visible(note)}
        </p>
      ))}
      {journal.segments && <Segments segments={journal.segments} />}
      {may('admin') && (
        <div class="row">
          {/* A Button would close the menu that the health is in beside a narrow list. */}
          <button type="button" disabled={check.value?.share !== undefined} onClick={verify}>
            Verify the journal
          </button>
          {check.value?.share !== undefined && <progress aria-label="Checked" value={check.value.share} />}
        </div>
      )}
      <p role="status" class={`break ${check.value?.isBad ? 'bad-text' : ''}`}>
        {check.value?.text}
      </p>
    </section>
  )
}

function Segments({ segments }: { readonly segments: NonNullable<Details['journal']['segments']> }) {
  const shown = segments.slice(-MOST_SEGMENTS).toReversed()
  return (
    <details>
      <summary>
        {counted(segments.length, 'segment')}, {bytes(segments.reduce((sum, { size }) => sum + size, 0))}
      </summary>
      <ul class="segments number quiet">
        {shown.map(({ first, size, compressed }) => (
          <li key={first}>
            from {count(first)}: {bytes(size)}
            {compressed && ', compressed'}
          </li>
        ))}
      </ul>
    </details>
  )
}

/** Shows what the server tells of its check as it comes. */
async function verify(): Promise<void> {
  check.value = { text: 'Checking…', share: 0 }
  try {
    for await (const { position, of, ok, problem = '' } of client.verify()) {
      if (of !== undefined) check.value = { text: 'Checking…', share: position / Math.max(1, of) }
      else if (ok) check.value = { text: `Intact: ${counted(position, 'event')}, each as it was written.` }
      else check.value = { text: `Damaged: ${visible(problem)}`, isBad: true }
    }
  } catch (error) {
    check.value = { text: (error as Error).message, isBad: true }
  }
}
