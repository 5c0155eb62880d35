// An item as JSON text: as a whole, or as a patch. What is typed is kept as a draft until it is saved or cancelled, and
// the faults that the server finds lead to their places in the text.
import { findNodeAtLocation, parseTree } from 'jsonc-parser'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { Button, Choices, messageOf } from './controls.tsx'
import { draftOf } from './drafts.ts'
import { idOf, pathOf, touched } from './rows.ts'

/** A text area with more takes seconds to be laid out. */
const EDITED_CHARACTERS = 64 * 1024

/** An item as it was read. */
export interface Shown {
  readonly collection: string
  /** Empty for a single object. */
  readonly key: string
  /** Undefined: there is none, or none at this moment. */
  readonly item: JsonObject | undefined
  readonly etag: string
  readonly position: number
}

interface Kind {
  readonly name: string
  readonly method: 'POST' | 'PUT' | 'PATCH'
  readonly type: string
  /** To begin with. */
  readonly text: string
}

const PATCHES: readonly Kind[] = [
  { name: 'Merge patch', method: 'PATCH', type: 'application/merge-patch+json', text: '{\n  \n}' },
  {
    name: 'JSON Patch',
    method: 'PATCH',
    type: 'application/json-patch+json',
    text: '[\n  {"op": "replace", "path": "/", "value": null}\n]',
  },
]

interface Properties {
  readonly collection: string
  /** Undefined: a new item. */
  readonly shown: Shown | undefined
  /** With the id of a created item. */
  readonly onDone: (created?: string) => void
}

export function ItemEditor({ collection, shown, onDone }: Properties) {
  const draft = draftOf(collection, shown?.key ?? null)
  // What was typed before a reload is about the item as it was then, as is what is typed while it changes.
  const [start] = useState(() => {
    const before = draft.read()
    return { before, kinds: kindsOf(shown?.item), etag: before?.etag ?? shown?.etag }
  })
  const kindOf = (name: string | undefined) => start.kinds.find((one) => one.name === name) ?? (start.kinds[0] as Kind)
  const names = start.kinds.map(({ name }) => name)
  const [kind, setKind] = useState(kindOf(start.before?.kind))
  const [text, setText] = useState(start.before?.text ?? kind.text)
  const [problem, setProblem] = useState<Error>()
  const [isSending, setSending] = useState(false)
  const area = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => area.current?.focus(), [])
  const fault = faultOf(text)
  const keep = (typed: string, of: Kind): void => {
    setText(typed)
    setKind(of)
    setProblem(undefined)
    if (typed === of.text) draft.remove()
    else draft.write({ kind: of.name, text: typed, etag: start.etag })
  }
  /** Changes the kind of the edit. Text that was typed is kept. */
  const choose = (name: string): void => {
    const next = kindOf(name)
    keep(text === kind.text ? next.text : text, next)
  }
  const save = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (fault !== undefined) return area.current?.focus()
    setSending(true)
    try {
      const headers = { 'Content-Type': kind.type, 'If-Match': start.etag }
      const response = await client.request(kind.method, pathOf(collection, shown?.key ?? ''), { text, headers })
      draft.remove()
      touched.value++
      onDone(shown ? undefined : String(idOf(response.json() as JsonObject)))
    } catch (error) {
      setProblem(error as Error)
      setSending(false)
    }
  }
  const cancel = (): void => {
    draft.remove()
    onDone()
  }
  const goTo = (pointer: string): void => {
    const { offset, length } = placeIn(text, pointer)
    area.current?.focus()
    area.current?.setSelectionRange(offset, offset + length)
  }
  return (
    <form class="editor" onSubmit={save}>
      {start.kinds === PATCHES && (
        <p class="quiet">This item is too long to be edited as a whole here. A patch changes parts of it.</p>
      )}
      {start.before && <p class="quiet">This was typed before, and is not saved yet. Cancel discards it.</p>}
      {names.length > 1 && <Choices label="How to change it" options={names} chosen={kind.name} onChoose={choose} />}
      <textarea
        ref={area}
        value={text}
        spellcheck={false}
        autocapitalize="off"
        aria-label="Item as JSON"
        aria-describedby="editor-state"
        aria-invalid={fault !== undefined}
        onInput={(event) => keep(event.currentTarget.value, kind)}
      />
      <p id="editor-state" class="bad-text break" role="status">
        {fault}
      </p>
      {problem && (
        <div class="bad-text break" role="alert">
          <p>{messageOf(problem)}</p>
          <ul class="faults">
            {(problem instanceof Problem ? problem.errors : []).map(({ pointer, message }) => (
              <li key={pointer + message}>
                <Button text={pointer || '/'} run={() => goTo(pointer)} /> {message}
              </li>
            ))}
          </ul>
        </div>
      )}
      <div class="row">
        <button type="submit" class="primary" disabled={isSending}>
          Save
        </button>
        <Button text="Cancel" run={cancel} />
      </div>
    </form>
  )
}

function kindsOf(item: JsonObject | undefined): readonly Kind[] {
  const type = 'application/json'
  if (!item) return [{ name: 'Create', method: 'POST', type, text: '{\n  \n}' }]
  const text = JSON.stringify(item, null, 2)
  return text.length > EDITED_CHARACTERS ? PATCHES : [{ name: 'Replace', method: 'PUT', type, text }, ...PATCHES]
}

function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `Not JSON yet: ${(error as Error).message}`
  }
}

/** The place of the value that a JSON Pointer leads to, or of the nearest one around it that there is. */
function placeIn(text: string, pointer: string): { readonly offset: number; readonly length: number } {
  const root = parseTree(text)
  const tokens = pointer.split('/').slice(1)
  const path = tokens.map((one) => (/^\d+$/.test(one) ? Number(one) : one.replaceAll('~1', '/').replaceAll('~0', '~')))
  while (root && path.length > 0) {
    const node = findNodeAtLocation(root, path)
    if (node) return node
    path.pop()
  }
  return { offset: 0, length: text.length }
}
