// Editing a value in its cell. The item is written only if nobody has changed it since it was read.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { PatchOperation } from '../../../src/client/index.ts'
import { pointer } from '../../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { messageOf } from './controls.tsx'
import { type Column, idOf, type Rows, touched, valueAt } from './rows.ts'

interface Properties {
  readonly loaded: Rows
  readonly item: JsonObject
  readonly column: Column
  /** Closes the editor. */
  readonly onDone: () => void
}

export function CellEditor({ loaded, item, column: { name, path }, onDone }: Properties) {
  const input = useRef<HTMLInputElement>(null)
  // The item may change while one types.
  const [start] = useState({ item, position: loaded.position })
  const [problem, setProblem] = useState('')
  const before = valueAt(start.item, path)
  const text = typeof before === 'string' ? before : (JSON.stringify(before) ?? '')
  useLayoutEffect(() => {
    const { current } = input
    current?.focus()
    current?.setSelectionRange(current.value.length, current.value.length)
  }, [])
  const save = async (typed: string): Promise<void> => {
    if (typed === text) return onDone()
    try {
      const patch = patchOf(start.item, path, typedValue(typed, before))
      const own = client.collection(loaded.collection).item(idOf(item))
      await own.patch(patch, { ifUnchangedSince: start.position })
      touched.value++
      onDone()
    } catch (error) {
      setProblem(messageOf(error))
      input.current?.focus()
    }
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    event.stopPropagation()
    if (event.key === 'Escape') onDone()
    if (event.key === 'Enter') void save(input.current?.value ?? '')
  }
  return (
    <div class="cell-editor">
      <input
        ref={input}
        defaultValue={text}
        spellcheck={false}
        aria-label={name}
        aria-invalid={problem !== ''}
        aria-describedby="cell-problem"
        onKeyDown={onKeyDown}
        onBlur={(event) => event.currentTarget.value === text && onDone()}
      />
      <p id="cell-problem" class="cell-problem" role="alert">
        {problem}
      </p>
    </div>
  )
}

/** Text stays text; other values are JSON. Where there was none, it is JSON if it can be. */
function typedValue(typed: string, before: JsonValue | undefined): JsonValue {
  if (typeof before === 'string') return typed
  try {
    return JSON.parse(typed) as JsonValue
  } catch (error) {
    if (before === undefined) return typed
    throw new SyntaxError(`This is not JSON: ${(error as Error).message}. Text needs quotes.`)
  }
}

/** Adds objects on the way that are missing. */
function patchOf(item: JsonObject, path: readonly string[], value: JsonValue): readonly PatchOperation[] {
  let depth = 1
  while (depth < path.length && (valueAt(item, path.slice(0, depth)) ?? null) !== null) depth++
  const parent = valueAt(item, path.slice(0, depth - 1))
  if (typeof parent !== 'object' || Array.isArray(parent)) {
    throw new TypeError(`${path.slice(0, depth - 1).join('.')} is no object here.`)
  }
  const added = path.slice(depth).reduceRight<JsonValue>((inner, name) => ({ [name]: inner }), value)
  return [{ op: 'add', path: pointer(path.slice(0, depth)), value: added }]
}
