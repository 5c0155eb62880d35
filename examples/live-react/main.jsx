import { useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { createRoot } from 'react-dom/client'
import { connect } from 'recollect/client'
import { useLive } from 'recollect/react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

const client = connect()
const posts = client.collection('posts')
const message = ({ status, message }) => (status === 412 ? 'Somebody else has changed this title.' : message)

function Page() {
  const { items, position } = useLive(posts.sort('id'))
  const state = useSyncExternalStore(
    (changed) => client.onState(changed),
    () => client.state,
  )
  return (
    <>
      <p role="status">{state}</p>
      {state === 'refused' && <Login />}
      <ul>
        {items.map((post) => (
          <Title key={post.id} post={post} position={position} />
        ))}
      </ul>
      <Chart position={position} />
    </>
  )
}

function Title({ post, position }) {
  const [edit, setEdit] = useState()
  const save = () => {
    if (edit.title !== post.title)
      posts
        .item(post.id)
        .patch({ title: edit.title }, { ifUnchangedSince: edit.position })
        .catch((error) => alert(message(error)))
    setEdit(undefined)
  }
  return (
    <li>
      <input
        aria-label={`title of post ${post.id}`}
        value={edit?.title ?? post.title ?? ''}
        onFocus={() => setEdit({ title: post.title, position })}
        onChange={({ target }) => setEdit({ ...edit, title: target.value })}
        onKeyDown={({ key, target }) => key === 'Enter' && target.blur()}
        onBlur={save}
      />
    </li>
  )
}

function Login() {
  const send = (data) =>
    client.login(data.get('username'), data.get('password')).catch((error) => alert(message(error)))
  return (
    <form action={send}>
      <input name="username" aria-label="name" /> <input name="password" type="password" aria-label="password" />
      <button type="submit">Sign in</button>
    </form>
  )
}

function Chart({ position }) {
  const element = useRef(null)
  const chart = useRef(null)
  useEffect(() => {
    const views = { label: 'views', stroke: 'teal', fill: 'lightcyan' }
    chart.current = new uPlot(
      { width: 480, height: 200, scales: { y: { range: [0, null] } }, series: [{}, views] },
      [[], []],
      element.current,
    )
    return () => chart.current.destroy()
  }, [])
  useEffect(() => {
    if (position === 0) return
    const draw = async () => {
      const { items } = await posts.where({ day_exists: true }).aggregate(['sum(views) as views'], { groupBy: ['day'] })
      chart.current.setData([items.map(({ day }) => Date.parse(day) / 1000), items.map(({ views }) => views)])
    }
    draw().catch(() => {})
  }, [position])
  return <div ref={element} />
}

createRoot(document.getElementById('page')).render(<Page />)
