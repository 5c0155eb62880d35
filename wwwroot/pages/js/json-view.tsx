// A JSON value as a tree. Long arrays and texts are shown in part, until one asks for more; what is closed is rendered
// when it is opened, so that a tree of any size is there at once.
import { useState } from 'preact/hooks'
import { counted, kindOf, short, visible } from './format.ts'

const MEMBERS = 100
const CHARACTERS = 2000
const NAME_CHARACTERS = 400
/** Values in the first level are open, as long as they have no more members in all. */
const OPEN_MEMBERS = 200

interface NodeProperties {
  readonly value: unknown
  /** The name of the member, or the index of the element. Undefined: it is the whole value. */
  readonly name?: string
  /** It is open at first if it has no more members. */
  readonly openMembers?: number
}

/** Any JSON value as a tree. What one opened stays open when the value changes. */
export function Value({ value }: { readonly value: unknown }) {
  return (
    <div class="json">
      <Node value={value} />
    </div>
  )
}

function Node({ value, name, openMembers = 0 }: NodeProperties) {
  const isArray = Array.isArray(value)
  const names = typeof value === 'object' && !isArray ? Object.keys(value ?? {}) : undefined
  const length = isArray ? value.length : (names?.length ?? 0)
  const [isOpen, setOpen] = useState(length <= openMembers)
  const key = name !== undefined && <span class="key">{short(name, NAME_CHARACTERS)}: </span>
  if (typeof value !== 'object' || value === null || length === 0) {
    return (
      <span>
        {key}
        <Scalar value={value} />
      </span>
    )
  }
  if (name === undefined) return <Members value={value} names={names} length={length} isWhole />
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {key}
        <span class="nested">{names ? `{${counted(length, 'member')}}` : `[${counted(length, 'element')}]`}</span>
      </summary>
      {isOpen && <Members value={value} names={names} length={length} />}
    </details>
  )
}

interface MembersProperties {
  readonly value: object
  /** Undefined: it is an array. */
  readonly names: readonly string[] | undefined
  readonly length: number
  readonly isWhole?: boolean
}

function Members({ value, names, length, isWhole = false }: MembersProperties) {
  const [most, setMost] = useState(MEMBERS)
  const shown = Array.from({ length: Math.min(most, length) }, (_, index) => names?.[index] ?? String(index))
  return (
    <ul>
      {shown.map((name) => (
        <li key={name}>
          <Node
            value={(value as Record<string, unknown>)[name]}
            name={name}
            openMembers={isWhole ? OPEN_MEMBERS / shown.length : 0}
          />
        </li>
      ))}
      {length > most && (
        <li>
          <button type="button" class="plain" onClick={() => setMost(most + MEMBERS)}>
            {counted(length - most, 'more', 'more')}…
          </button>
        </li>
      )}
    </ul>
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
      {left > 0 && (
        <button type="button" class="plain" onClick={() => setWhole(true)}>
          {counted(left, 'more character')}…
        </button>
      )}
    </>
  )
}

/** The class that gives a value of a kind its colour. */
export function classOf(value: unknown): string {
  const kind = kindOf(value)
  return kind === 'number' ? 'value-number' : kind
}
