/** @jsxImportSource react */
// A page that uses each hook, which react.test.ts runs in Chromium.
import { StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { connect } from '../../src/client/index.ts'
import { useItem, useLive } from '../../src/client/react.ts'

interface Todo {
  readonly id: number
  readonly text: string
  readonly isDone?: boolean
}

const client = connect()
Object.assign(globalThis, { client })
const todos = client.collection<Todo>('todos')
let renderings = 0

function Page() {
  const [isDone, show] = useState(false)
  const [id, choose] = useState<number>()
  renderings++
  // The query is a new one at each rendering.
  const { items, total, position, isLoaded, error } = useLive(todos.where(isDone ? { isDone } : {}).sort('text'))
  return (
    <main>
      <p id="state">{error ? error.code : isLoaded ? `${total} items` : 'loading'}</p>
      <ul>
        {items.map((todo) => (
          <li key={todo.id}>
            <button type="button" onClick={() => choose(todo.id)}>
              {todo.text}
            </button>
          </li>
        ))}
      </ul>
      <button id="filter" type="button" onClick={() => show(!isDone)}>
        Done
      </button>
      {id !== undefined && <Details id={id} />}
      <output data-position={position}>{renderings}</output>
    </main>
  )
}

function Details({ id }: { readonly id: number }) {
  const { item, isLoaded, position } = useItem(todos.item(id))
  const profile = useItem(client.object<{ name: string }>('profile'))
  const finish = () => todos.item(id).patch({ isDone: true }, { ifUnchangedSince: position })
  if (!item) return <p id="item">{isLoaded ? 'gone' : 'loading'}</p>
  return (
    <button id="item" type="button" onClick={finish}>
      {item.text} of {profile.item?.name}
    </button>
  )
}

/** A query with another part at each rendering. */
function Unsteady() {
  const { items, error } = useLive(todos.where({ text_ne: String(performance.now()) }))
  return <p id="state">{error?.message ?? items.length}</p>
}

/** A query that cannot be followed. */
function Past() {
  const { error } = useLive(todos.asOf(1))
  return <p id="state">{error?.message}</p>
}

/** Items that no address can contain, one after the other. */
function Dots() {
  const [id, choose] = useState('.')
  const { item } = useItem(client.collection<{ id: string; text: string }>('dots').item(id))
  return (
    <button id="item" type="button" onClick={() => choose('..')}>
      {item?.text}
    </button>
  )
}

const Shown = { '?unsteady': Unsteady, '?past': Past, '?dots': Dots }[location.search] ?? Page

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <Shown />
  </StrictMode>,
)
