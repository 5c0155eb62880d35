// An item as JSON text: as a whole, or as a patch. What is typed is kept as a draft until it is saved or cancelled, and
// the faults that the server finds lead to their places in the text.
import { findNodeAtLocation, type Node, parseTree } from 'jsonc-parser'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { Button, Choices, messageOf } from './controls.tsx'
import { draftOf } from './drafts.ts'
import { idField, pathOf, touched } from './rows.ts'

/** A text area with more takes seconds to be laid out. */
const EDITED_CHARACTERS = 64 * 1024

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
  /** Undefined: a new item; empty: a single object. */
  readonly id: string | undefined
  readonly item: JsonObject | undefined
  readonly etag: string
  /** With the id of a created item. */
  readonly onDone: (created?: string) => void
}

export function ItemEditor({ collection, id, item, etag, onDone }: Properties) {
  const draft = draftOf(collection, id ?? null)
  // What was typed before a reload is about the item as it was then, as is what is typed while it changes.
  const [start] = useState(() => {
    const before = draft.read()
    const { kinds, isWhole } = kindsOf(item)
    return { before, kinds, isWhole, etag: before?.etag ?? etag }
  })
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(start.before?.texts ?? {})
  const [kind, setKind] = useState(
    start.kinds.find(({ name }) => name === start.before?.kind) ?? (start.kinds[0] as Kind),
  )
  const [problem, setProblem] = useState<Error>()
  const [isSending, setSending] = useState(false)
  const area = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => area.current?.focus(), [])
  const text = texts[kind.name] ?? kind.text
  const fault = faultOf(text)
  const keep = (typed: string): void => {
    const { [kind.name]: _, ...others } = texts
    const next = typed === kind.text ? others : { ...others, [kind.name]: typed }
    setTexts(next)
    setProblem(undefined)
    if (Object.keys(next).length === 0) draft.remove()
    else draft.write({ kind: kind.name, texts: next, etag: start.etag })
  }
  const save = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (fault !== undefined) return area.current?.focus()
    setSending(true)
    try {
      const headers = { 'Content-Type': kind.type, 'If-Match': id === undefined ? undefined : start.etag }
      const response = await client.request(kind.method, pathOf(collection, id ?? ''), { text, headers })
      draft.remove()
      touched.value++
      onDone(id === undefined ? String((response.json() as JsonObject)[idField()]) : undefined)
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
    const { offset, length } = nodeAt(text, pointer) ?? { offset: 0, length: 0 }
    area.current?.focus()
    area.current?.setSelectionRange(offset, offset + length)
  }
  return (
    <form class="editor" onSubmit={save}>
      {!start.isWhole && (
        <p class="quiet">This item is too long to be edited as a whole here. A patch changes parts of it.</p>
      )}
      {start.before && <p class="quiet">This was typed before, and is not saved yet. Cancel discards it.</p>}
      {start.kinds.length > 1 && (
        <Choices
          label="How to change it"
          options={start.kinds.map(({ name }) => name)}
          chosen={kind.name}
          onChoose={(name) => setKind(start.kinds.find((one) => one.name === name) ?? kind)}
        />
      )}
      <textarea
        ref={area}
        value={text}
        spellcheck={false}
        autocapitalize="off"
        aria-label="Item as JSON"
        aria-describedby="editor-state"
        aria-invalid={fault !== undefined}
        onInput={(event) => keep(event.currentTarget.value)}
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

function kindsOf(item: JsonObject | undefined): { readonly kinds: readonly Kind[]; readonly isWhole: boolean } {
  const whole = { type: 'application/json', text: item ? JSON.stringify(item, null, 2) : '{\n  \n}' }
  if (!item) return { kinds: [{ ...whole, name: 'Create', method: 'POST' }], isWhole: true }
  const isWhole = whole.text.length <= EDITED_CHARACTERS
  return { kinds: [...(isWhole ? [{ ...whole, name: 'Replace', method: 'PUT' } as const] : []), ...PATCHES], isWhole }
}

function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `Not JSON yet: ${(error as Error).message}`
  }
}

/** The value that a JSON Pointer leads to, or the nearest one around it that there is. */
function nodeAt(text: string, pointer: string): Node | undefined {
  let node = parseTree(text)
  for (const token of pointer.split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~')
    const next = node && findNodeAtLocation(node, [node.type === 'array' ? Number(name) : name])
    if (!next) break
    node = next
  }
  return node
}
