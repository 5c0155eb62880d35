// Restoring the state of a moment: first a preview of what would change, then the change, and the way back from there.
import { useEffect, useState } from 'preact/hooks'
import type { Restored } from '../../../src/client/index.ts'
import { client, now } from './app.ts'
import { Choices, Dialog, messageOf } from './controls.tsx'
import { counted, moment, visible } from './format.ts'
import { say } from './messages.tsx'
import { timeOf } from './time.ts'
import { VERBS } from './words.ts'

const SHOWN = 100

interface Scope {
  readonly collection?: string
  readonly id?: string | number
}

/** `to`: the position of the last event whose effect remains. The choice is the item, its collection, or everything. */
export function RestoreDialog({
  to,
  onClose,
  ...wanted
}: Scope & { readonly to: number; readonly onClose: () => void }) {
  const scopes = scopesOf(wanted)
  const [scope, choose] = useState(scopes[0] ?? {})
  const [preview, setPreview] = useState<Restored | Error>()
  const [when, setWhen] = useState('…')
  useEffect(() => {
    const show = (ms: number): void => setWhen(moment(ms, now(), { withSeconds: true }))
    timeOf(to).then(show, () => {})
  }, [to])
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
  }, [scope, to])
  const restore = async (): Promise<void> => {
    const { position, events } = await client.restore({ ...scope, to })
    onClose()
    const run = (): void => void undo(scope, position - events)
    say(`${nameOf(scope)} restored by ${counted(events, 'event')}.`, { action: { name: 'Undo', run } })
  }
  const events = preview instanceof Error ? 0 : (preview?.events ?? 0)
  const choice = (name: string): void => choose(scopes.find((one) => nameOf(one) === name) ?? {})
  return (
    <Dialog
      title={`Restore the state of ${when}`}
      action={events > 0 ? `Restore, ${counted(events, 'event')}` : 'Restore'}
      isReady={events > 0}
      onSubmit={restore}
      onClose={onClose}
    >
      <Choices label="What" options={scopes.map(nameOf)} chosen={nameOf(scope)} onChoose={choice} />
      <p class="quiet">History is not changed: the restore is written as new events, and can be undone.</p>
      <div class="restored">
        {preview ? <Preview preview={preview} /> : <p class="quiet">Checking what would change…</p>}
      </div>
    </Dialog>
  )
}

function Preview({ preview }: { readonly preview: Restored | Error }) {
  if (preview instanceof Error) return <p class="bad-text break">{preview.message}</p>
  const { events, changes } = preview
  if (events === 0) return <p>Nothing would change: the state is the same.</p>
  const shown = changes.slice(0, SHOWN)
  return (
    <>
      <ul>
        {shown.map(({ type, collection, id }) => (
          <li key={`${type} ${placeText(collection, id)}`} class="break">
            <span class="mono">{placeText(collection, id)}</span> {VERBS[type as keyof typeof VERBS] ?? type}
          </li>
        ))}
      </ul>
      {events > shown.length && <p class="quiet">and {counted(events - shown.length, 'more', 'more')}</p>}
    </>
  )
}

async function undo(scope: Scope, to: number): Promise<void> {
  try {
    const { events } = await client.restore({ ...scope, to })
    say(`Undone by ${counted(events, 'event')}.`)
  } catch (error) {
    say(messageOf(error), { isBad: true })
  }
}

function scopesOf({ collection, id }: Scope): readonly Scope[] {
  if (collection === undefined) return [{}]
  return id === undefined || id === '' ? [{ collection }, {}] : [{ collection, id }, { collection }, {}]
}

function nameOf({ collection, id }: Scope): string {
  return collection === undefined ? 'Everything' : placeText(collection, id)
}

/** A single object has an empty id. */
export function placeText(collection: string, id: string | number | undefined): string {
  return visible(id === undefined || id === '' ? collection : `${collection}/${id}`)
}
