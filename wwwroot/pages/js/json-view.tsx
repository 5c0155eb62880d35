// A JSON value as a tree. Long arrays and texts are shown in part, until one asks for more; what is closed is rendered
// when it is opened, so that a tree of any size is there at once.
import { useState } from 'preact/hooks'
import { Button } from './controls.tsx'
import { count, counted, short, visible } from './format.ts'

const MEMBERS = 100
const CHARACTERS = 2000
const NAME_CHARACTERS = 400
/** Values in the first level are open, as long as they have no more members in all. */
const OPEN_MEMBERS = 200

/** Any JSON value as a tree. What one opened stays open when the value changes. */
export function Value({ value }: { readonly value: unknown }) {
  return (
    <div class="json">
      <Node value={value} />
    </div>
  )
}

interface NodeProperties {
  readonly value: unknown
  /** The name of the member, or the index of the element. Undefined: it is the whole value. */
  readonly name?: string
  /** It is open at first if it has no more members. */
  readonly openMembers?: number
}

function Node({ value, name, openMembers = 0 }: NodeProperties) {
  const isArray = Array.isArray(value)
  const names = typeof value === 'object' && !isArray ? Object.keys(value ?? {}) : undefined
  const length = isArray ? value.length : (names?.length ?? 0)
  const isWhole = name === undefined
  const [isOpen, setOpen] = useState(isWhole || length <= openMembers)
  const [most, setMost] = useState(MEMBERS)
  const key = !isWhole && <span class="key">{short(name, NAME_CHARACTERS)}: </span>
  if (length === 0) {
    return (
      <span>
        {key}
        <Scalar value={value} />
      </span>
    )
  }
  const shown = Array.from({ length: Math.min(most, length) }, (_, index) => names?.[index] ?? String(index))
  const members = isOpen && (
    <ul>
      {shown.map((one) => (
        <li key={one}>
          <Node
            value={(value as Record<string, unknown>)[one]}
            name={one}
            openMembers={isWhole ? OPEN_MEMBERS / shown.length : 0}
          />
        </li>
      ))}
      {length > most && (
        <li>
          <Button text={`${count(length - most)} more…`} class="plain" run={() => setMost(most + MEMBERS)} />
        </li>
      )}
    </ul>
  )
  if (isWhole) return members
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {key}
        <span class="nested">{isArray ? `[${counted(length, 'element')}]` : `{${counted(length, 'member')}}`}</span>
      </summary>
      {members}
    </details>
  )
}

/** A value without members. */
function Scalar({ value }: { readonly value: unknown }) {
  const [isWhole, setWhole] = useState(false)
  if (typeof value !== 'string') return <span class={classOf(value)}>{JSON.stringify(value)}</span>
  const left = isWhole ? 0 : value.length - CHARACTERS
  return (
    <>
      <span class="string">{left > 0 ? `"${visible(value.slice(0, CHARACTERS))}…` : `"${visible(value)}"`}</span>{' '}
      {left > 0 && <Button text={`${counted(left, 'more character')}…`} class="plain" run={() => setWhole(true)} />}
    </>
  )
}

/** The class that gives a value of a kind its colour. */
export function classOf(value: unknown): string {
  if (value === null || typeof value === 'boolean') return 'word'
  if (typeof value === 'object') return 'nested'
  return typeof value === 'number' ? 'value-number' : 'string'
}
