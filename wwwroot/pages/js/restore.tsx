// Restoring the state of a moment: first a preview of what would change, then the change, and the way back from there.
import { useEffect, useState } from 'preact/hooks'
import type { Restored } from '../../../src/client/index.ts'
import { client, now } from './app.ts'
import { Choices, Dialog, messageOf } from './controls.tsx'
import { counted, moment } from './format.ts'
import { say } from './messages.tsx'
import { timeOf } from './time.ts'
import { undo } from './undo.tsx'
import { placeOf, VERBS } from './words.ts'

const SHOWN = 100

interface Scope {
  readonly collection?: string
  readonly id?: string | number
}

interface RestoreProperties extends Scope {
  /** The position of the event after which, or before which, the state is restored. */
  readonly position: number
  readonly isBefore?: boolean
  readonly onClose: () => void
}

/** The choice is the item, its collection, or everything. */
export function RestoreDialog({ position, isBefore = false, onClose, collection, id }: RestoreProperties) {
  const to = isBefore ? position - 1 : position
  const scopes: readonly Scope[] = [
    ...(collection !== undefined && id !== undefined && id !== '' ? [{ collection, id }] : []),
    ...(collection !== undefined ? [{ collection }] : []),
    {},
  ]
  const [chosen, choose] = useState(0)
  const scope = scopes[chosen] as Scope
  const [preview, setPreview] = useState<Restored | Error>()
  const [when, setWhen] = useState('…')
  useEffect(() => {
    const show = (ms: number): void => setWhen(moment(ms, now(), { withSeconds: true }))
    timeOf(position).then(show, () => {})
  }, [position])
  // biome-ignore lint/correctness/useExhaustiveDependencies: the scope is that of the choice.
  useEffect(() => {
    let isWanted = true
    const show = (found: Restored | Error): void => {
      if (isWanted) setPreview(found)
    }
    setPreview(undefined)
    client.restore({ ...scope, to, dryRun: true }).then(show, show)
    return () => {
      isWanted = false
    }
  }, [chosen, to])
  const restore = async (): Promise<void> => {
    const { position: last, events } = await client.restore({ ...scope, to })
    onClose()
    const back = { ...scope, to: last - events, ifUnchangedSince: last }
    const run = (): void => void undo(async () => [back])
    say(`${nameOf(scope)} restored by ${counted(events, 'event')}.`, { action: { name: 'Undo', run } })
  }
  const events = preview instanceof Error ? 0 : (preview?.events ?? 0)
  const names = scopes.map(nameOf)
  return (
    <Dialog
      title={`Restore the state ${isBefore ? 'before' : 'of'} ${when}`}
      action={events > 0 ? `Restore (${counted(events, 'event')})` : 'Restore'}
      isReady={events > 0}
      onSubmit={restore}
      onClose={onClose}
    >
      <Choices label="What" options={names} chosen={nameOf(scope)} onChoose={(name) => choose(names.indexOf(name))} />
      <p class="quiet">History is not changed: the restore is written as new events, and can be undone.</p>
      <div class="restored">
        {preview ? <Preview preview={preview} /> : <p class="quiet">Checking what would change…</p>}
      </div>
    </Dialog>
  )
}

function Preview({ preview }: { readonly preview: Restored | Error }) {
  if (preview instanceof Error) return <p class="bad-text break">{messageOf(preview)}</p>
  const { events, changes } = preview
  if (events === 0) return <p>Nothing would change: the state is the same.</p>
  const shown = changes.slice(0, SHOWN)
  return (
    <>
      <ul>
        {shown.map((change) => (
          <li key={JSON.stringify(change)} class="break">
            <span class="mono">{nameOf(change)}</span> {VERBS[change.type as keyof typeof VERBS] ?? change.type}
          </li>
        ))}
      </ul>
      {events > shown.length && <p class="quiet">and {counted(events - shown.length, 'more', 'more')}</p>}
    </>
  )
}

function nameOf({ collection, id }: Scope): string {
  return collection === undefined ? 'Everything' : placeOf(collection, id).text
}
