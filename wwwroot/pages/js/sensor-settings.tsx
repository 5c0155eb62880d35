// Names, units, order and limits of sensors: members of the items, or kept by the browser of one who may not write those.
import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { isObject, type JsonObject, type JsonValue } from '../../../src/json/value.ts'
import { base, client } from './app.ts'
import { visible } from './format.ts'
import { type Item, limitsOf, measuresOf, nameOf, SENSORS, unitOf } from './measures.ts'
import { say } from './messages.tsx'

type Settings = Readonly<Record<string, Item>>

/** Several servers may be below paths of one origin. */
const KEPT = `recollect.sensors ${new URL(base).pathname}`

const kept = signal<Settings>(readKept())

function readKept(): Settings {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? '{}')
  } catch {
    return {}
  }
}

function keep(settings: Settings): void {
  kept.value = settings
  try {
    localStorage.setItem(KEPT, JSON.stringify(settings))
  } catch {
    // Without storage they hold until the next page.
  }
}

/** The item of a sensor with what the browser keeps for it. */
export function withKept(key: string, item: Item): Item {
  const own = Object.hasOwn(kept.value, key) ? kept.value[key] : undefined
  return own ? { ...item, ...own } : item
}

interface DialogProperties {
  readonly sensor: string
  readonly item: Item
  /** Whether the settings become members of the sensor's item. */
  readonly isWriter: boolean
  readonly onClose: () => void
}

export function SettingsDialog({ sensor, item, isWriter, onClose }: DialogProperties) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const [problem, setProblem] = useState('')
  const close = (): void => dialog.current?.close()
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    save(sensor, item, isWriter, form).then(close, (error: Error) => setProblem(error.message))
  }
  const number = { type: 'number', step: 'any', class: 'limit' } as const
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="settings-title">
      <form onSubmit={submit}>
        <h2 id="settings-title">Settings of {visible(String(nameOf(item)))}</h2>
        <div class="row">
          <label class="field">
            Name
            <input name="name" maxLength={80} defaultValue={typeof item.name === 'string' ? item.name : ''} />
          </label>
          <label class="field">
            Order: the least first
            <input name="order" {...number} defaultValue={String(item.order ?? '')} />
          </label>
        </div>
        <div class="limits">
          <table>
            <thead>
              <tr>
                {['Measurement', 'Unit', 'Mark below', 'Mark above'].map((head) => (
                  <th key={head} scope="col">
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {measuresOf(item).map(({ name }) => {
                const { low, high } = limitsOf(item, name)
                const cells = {
                  unit: [{ maxLength: 12 }, unitOf(item, name)],
                  low: [number, low],
                  high: [number, high],
                }
                return (
                  <tr key={name}>
                    <th scope="row" class="break">
                      {visible(name)}
                    </th>
                    {Object.entries(cells).map(([kind, [type, value]]) => {
                      const named = { name: `${kind} ${name}`, 'aria-label': `${kind} of ${name}`, class: 'limit' }
                      return (
                        <td key={kind}>
                          <input {...named} {...(type as object)} defaultValue={String(value ?? '')} />
                        </td>
                      )
                    })}
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
        <p class="bad-text" role="alert">
          {problem}
        </p>
        <p class="quiet">
          {isWriter
            ? 'Everybody sees these settings: they become members of the item.'
            : 'This browser alone keeps these settings, as you may not change the item.'}
        </p>
        <div class="row">
          <button type="submit" class="primary">
            Save
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  )
}

async function save(sensor: string, item: Item, isWriter: boolean, form: FormData): Promise<void> {
  const text = (name: string): string => String(form.get(name) ?? '').trim()
  const number = (name: string): number | undefined => (text(name) === '' ? undefined : Number(text(name)))
  const units: Record<string, string | undefined> = {}
  const thresholds: Record<string, Record<string, number | undefined> | undefined> = {}
  for (const { name } of measuresOf(item)) {
    units[name] = text(`unit ${name}`) || undefined
    const limits = { low: number(`low ${name}`), high: number(`high ${name}`) }
    thresholds[name] = limits.low === undefined && limits.high === undefined ? undefined : limits
  }
  const wanted = { name: text('name') || undefined, order: number('order'), units, thresholds }
  const { [sensor]: _, ...others } = kept.value
  if (isWriter) {
    await client.collection(SENSORS).item(sensor).patch(mergePatch(item, wanted))
    keep(others)
  } else keep({ ...others, [sensor]: JSON.parse(JSON.stringify(wanted)) })
  say('Saved.')
}

/** What of the wanted members the item has otherwise, as a merge patch. */
function mergePatch(before: Item, wanted: Readonly<Record<string, unknown>>): Item {
  const patch: Record<string, Item[string]> = {}
  for (const [name, value] of Object.entries(wanted)) {
    const old = before[name]
    if (isObject(value as JsonValue)) {
      const inner = mergePatch(isObject(old) ? old : {}, value as JsonObject)
      if (Object.keys(inner).length > 0) patch[name] = inner
    } else if (value !== old) patch[name] = (value as string | number | undefined) ?? null
  }
  return patch
}
