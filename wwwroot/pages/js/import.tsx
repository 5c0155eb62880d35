// Importing a file: what is in it is shown first, then it is sent as one batch.
import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { client } from './app.ts'
import { Dialog, set } from './controls.tsx'
import { bytes, counted, short } from './format.ts'
import { say } from './messages.tsx'
import { go } from './query.ts'
import { collection, isObject, pathOf, shownCounts, touched } from './rows.ts'

const PREVIEW = 6
const PREVIEW_CHARACTERS = 200
const MOST_BYTES = 64 * 1024 * 1024
const MOST_REJECTED = 100

interface Batch {
  readonly name: string
  readonly text: string
  readonly type: string
  /** The number of items; of CSV, in which a text may have several lines, the most that it can be. */
  readonly total: number
  readonly first: readonly string[]
}

interface Result {
  readonly status: string
  readonly line?: number
  readonly problem?: { readonly detail?: string }
}

const batch = signal<Batch>()

/** Shows a file before it is sent. */
export async function importFile(file: File | undefined): Promise<void> {
  if (!file) return
  try {
    if (file.size > MOST_BYTES) throw new RangeError(`it has ${bytes(file.size)}, and ${bytes(MOST_BYTES)} is the most`)
    batch.value = batchOf(file.name, await file.text())
  } catch (error) {
    say(`${file.name} cannot be imported: ${(error as Error).message}.`, { isBad: true })
  }
}

function batchOf(name: string, text: string): Batch {
  const ofLines = /\.(csv|ndjson|jsonl)$/i.exec(name)?.[1]?.toLowerCase()
  if (ofLines !== undefined) {
    const lines = text.split('\n').filter((line) => line.trim() !== '')
    const isCsv = ofLines === 'csv'
    const type = isCsv ? 'text/csv' : 'application/x-ndjson'
    return { name, text, type, total: lines.length - (isCsv ? 1 : 0), first: lines.slice(0, PREVIEW) }
  }
  const value = JSON.parse(text) as unknown
  const items = Array.isArray(value) ? value : [value]
  const first = items.slice(0, PREVIEW).map((item) => JSON.stringify(item))
  return { name, text: JSON.stringify(items), type: 'application/json', total: items.length, first }
}

export function ImportDialog() {
  return batch.value ? <Import key={batch.value.name} batch={batch.value} /> : null
}

function Import({ batch: { name, text, type, total, first } }: { readonly batch: Batch }) {
  const [target, setTarget] = useState((!isObject.value && collection.value) || name.replace(/\.\w+$/, ''))
  const [rejected, setRejected] = useState<readonly string[]>([])
  const close = set(batch, undefined)
  const isNew = !Object.hasOwn(shownCounts.value ?? {}, target)
  const send = async (): Promise<void> => {
    if (rejected.length > 0) return close()
    const headers = { 'Content-Type': type, Prefer: 'handling=lenient' }
    const response = await client.request('POST', pathOf(target), { text, headers })
    const { results } = response.json() as { readonly results: readonly Result[] }
    const wrong = results.flatMap(({ status, line, problem }, index) => {
      const where = line === undefined ? `Item ${index + 1}` : `Line ${line}`
      return status === 'rejected' ? [`${where}: ${problem?.detail}`] : []
    })
    touched.value++
    say(`${counted(results.length - wrong.length, 'item')} imported into ${target}.`)
    go({ collection: target, query: undefined, item: undefined })
    setRejected(wrong)
    if (wrong.length === 0) close()
  }
  const isSent = rejected.length > 0
  return (
    <Dialog
      title={`Import ${name}`}
      action={isSent ? 'Close' : 'Import'}
      isReady={total > 0}
      isWide
      onSubmit={send}
      onClose={close}
    >
      {!isSent && (
        <label class="field">
          Into the collection
          <input value={target} required onInput={(event) => setTarget(event.currentTarget.value)} />
        </label>
      )}
      <p>
        {isSent
          ? `${counted(rejected.length, 'item')} rejected:`
          : `${type === 'text/csv' ? 'Up to ' : ''}${counted(total, 'item')} (${bytes(text.length)}) will be created${isNew ? ', and the collection, too' : ''}. The server assigns the ids.`}
      </p>
      <pre class="break preview">
        {(isSent ? rejected.slice(0, MOST_REJECTED) : first).map((line) => short(line, PREVIEW_CHARACTERS)).join('\n')}
      </pre>
    </Dialog>
  )
}
