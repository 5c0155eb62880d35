// A JSON value as a tree. Long arrays and texts are shown in part, until one asks for more; what is closed is rendered
// when it is opened, so that a tree of any size is there at once.
import { useState } from 'preact/hooks'
import { counted, kindOf, short, visible } from './format.ts'

const MEMBERS = 100
const CHARACTERS = 2000
/** Characters of a long text that each click on “more” adds. */
const MORE_CHARACTERS = 20_000
const NAME_CHARACTERS = 400
/** Trees are open so deep at first, as long as there are no more members in all. */
const OPEN_DEPTH = 2
const OPEN_MEMBERS = 200

/** How many members may still be shown without being asked for. */
interface Budget {
  left: number
}

interface NodeProperties {
  readonly value: unknown
  readonly depth: number
  readonly budget: Budget
  /** The name of the member, or the index of the element. */
  readonly name?: string
}

/** Any JSON value as a tree. What one opened stays open when the value changes. */
export function Value({ value }: { readonly value: unknown }) {
  const [budget] = useState<Budget>({ left: OPEN_MEMBERS })
  return (
    <div class="json">
      <Node value={value} depth={0} budget={budget} />
    </div>
  )
}

function Node({ value, depth, budget, name }: NodeProperties) {
  const [isOpen, setOpen] = useState(() => depth === 0 || (depth < OPEN_DEPTH && budget.left > 0))
  const key = name !== undefined && <span class="key">{short(name, NAME_CHARACTERS)}: </span>
  if (typeof value !== 'object' || value === null) {
    return (
      <span>
        {key}
        <Scalar value={value} />
      </span>
    )
  }
  const isArray = Array.isArray(value)
  const names = isArray ? undefined : Object.keys(value)
  const length = names?.length ?? (value as readonly unknown[]).length
  if (length === 0) {
    return (
      <span>
        {key}
        <span class="nested">{isArray ? '[]' : '{}'}</span>
      </span>
    )
  }
  const members = <Members value={value} names={names} length={length} depth={depth} budget={budget} />
  if (depth === 0) return members
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {key}
        <span class="nested">{isArray ? `[${counted(length, 'element')}]` : `{${counted(length, 'member')}}`}</span>
      </summary>
      {isOpen && members}
    </details>
  )
}

function Members({
  value,
  names,
  length,
  depth,
  budget,
}: NodeProperties & { readonly names: readonly string[] | undefined; readonly length: number }) {
  const [most, setMost] = useState(() => {
    budget.left -= Math.min(MEMBERS, length)
    return MEMBERS
  })
  const shown = Array.from({ length: Math.min(most, length) }, (_, index) => names?.[index] ?? String(index))
  return (
    <ul>
      {shown.map((name) => (
        <li key={name}>
          <Node value={(value as Record<string, unknown>)[name]} depth={depth + 1} budget={budget} name={name} />
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

function Scalar({ value }: { readonly value: unknown }) {
  const [most, setMost] = useState(CHARACTERS)
  if (typeof value !== 'string') return <span class={classOf(value)}>{String(value)}</span>
  const left = value.length - most
  return (
    <>
      <span class="string">{left > 0 ? `"${visible(value.slice(0, most))}…` : `"${visible(value)}"`}</span>{' '}
      {left > 0 && (
        <button type="button" class="plain" onClick={() => setMost(most + MORE_CHARACTERS)}>
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
