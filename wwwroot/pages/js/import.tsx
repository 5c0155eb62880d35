// Importing a file: its beginning is shown first, then it is sent as one batch.
import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { client } from './app.ts'
import { Dialog, set } from './controls.tsx'
import { shownCounts } from './counts.ts'
import { bytes, counted, short } from './format.ts'
import { say } from './messages.tsx'
import { go } from './query.ts'
import { collection, isObject, pathOf, touched } from './rows.ts'

const SHOWN_LINES = 6
const SHOWN_CHARACTERS = 200
const MOST_BYTES = 64 * 1024 * 1024
const MOST_REJECTED = 100
/** By the endings of file names; other files are JSON. */
const TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  jsonl: 'application/x-ndjson',
}

interface Batch {
  readonly name: string
  readonly text: string
  readonly type: string
  /** How many items there are; of CSV, in which a text may have several lines, at most. */
  readonly size: string
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
  const type = TYPES[name.split('.').at(-1)?.toLowerCase() ?? '']
  if (type === undefined) {
    const value = JSON.parse(text) as unknown
    const items = Array.isArray(value) ? value : [value]
    return { name, text: JSON.stringify(items), type: 'application/json', size: counted(items.length, 'item') }
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '').length
  const isCsv = type === TYPES.csv
  return { name, text, type, size: isCsv ? `Up to ${counted(lines - 1, 'item')}` : counted(lines, 'item') }
}

export function ImportDialog() {
  return batch.value ? <Import key={batch.value.name} batch={batch.value} /> : null
}

function Import({ batch: { name, text, type, size } }: { readonly batch: Batch }) {
  const [target, setTarget] = useState((!isObject.value && collection.value) || name.replace(/\.\w+$/, ''))
  const [rejected, setRejected] = useState<readonly string[]>([])
  const close = set(batch, undefined)
  const isNew = !Object.hasOwn(shownCounts.value ?? {}, target)
  const send = async (): Promise<void> => {
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
    if (wrong.length > 0) setRejected(wrong)
    else close()
  }
  const linesOf = (lines: readonly string[]) => (
    <pre class="break preview">{lines.map((line) => short(line, SHOWN_CHARACTERS)).join('\n')}</pre>
  )
  if (rejected.length > 0) {
    return (
      <Dialog title={`Import ${name}`} action="Close" isWide onSubmit={close} onClose={close}>
        <p>{counted(rejected.length, 'item')} rejected:</p>
        {linesOf(rejected.slice(0, MOST_REJECTED))}
      </Dialog>
    )
  }
  return (
    <Dialog title={`Import ${name}`} action="Import" isWide onSubmit={send} onClose={close}>
      <label class="field">
        Into the collection
        <input value={target} required onInput={(event) => setTarget(event.currentTarget.value)} />
      </label>
      <p>
        {size} ({bytes(text.length)}) will be created{isNew && ', and the collection, too'}. The server assigns the ids.
      </p>
      {linesOf(text.split('\n', SHOWN_LINES))}
    </Dialog>
  )
}
