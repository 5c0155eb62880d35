import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

/** Random requests, edits of the data file, restores and restarts in each run. */
const STEPS = Number(process.env.OBJECTS_STEPS ?? 120)

type Value = Record<string, unknown>
/** Lists of items and single objects, by name, as a data file shows them. */
type State = Record<string, Value | Value[]>

const NAMES = ['a', 'b', 'c']

/** A naive model of single objects beside lists of items of the same names. */
class Model {
  server: RunningProgram
  readonly random: Random
  state: State
  /** Whether a name is that of an object, or was when it was removed. */
  readonly #isObject: Record<string, boolean> = {}
  /** The state at some positions. */
  readonly #past: { readonly position: number; readonly state: State }[] = []
  #values = 0

  constructor(server: RunningProgram, random: Random, state: State, position: number) {
    this.server = server
    this.random = random
    this.state = state
    this.#changed(position)
  }

  /** Another one each time. */
  value(): Value {
    return { n: this.#values++, ...(this.random.chance(0.3) && { in: { id: this.random.integer(3) } }) }
  }

  async read(): Promise<void> {
    const name = this.random.pick(NAMES)
    const then = this.random.chance(0.5) ? this.random.pick(this.#past) : undefined
    const reply = await this.#ask('GET', then ? `/api/${name}?asOf=${then.position}` : `/api/${name}`)
    const expected = (then?.state ?? this.state)[name]
    assert.equal(reply.status, expected ? 200 : 404, reply.text)
    if (expected) assert.deepEqual(reply.json(), expected)
  }

  async write(): Promise<void> {
    const name = this.random.pick(NAMES)
    const before = this.state[name]
    const method = this.random.pick(['PUT', 'PUT', 'PATCH', 'DELETE', 'POST'])
    const wanted = this.random.pick(['none', 'none', 'right', 'wrong'])
    const { etag } = before ? (await this.#ask('GET', `/api/${name}`)).headers : {}
    const headers = wanted === 'none' ? {} : { 'If-Match': wanted === 'right' ? (etag ?? '*') : '"wrong"' }
    const value = this.value()
    const path = method === 'DELETE' && !this.#isObject[name] ? `/api/${name}?all=true` : `/api/${name}`
    const reply = await this.#ask(method, path, method === 'DELETE' ? undefined : value, headers)
    const isThere = before !== undefined
    if (method === 'POST') {
      assert.equal(reply.status, this.#isObject[name] ? 409 : 201, reply.text)
      const items = (before ?? []) as Value[]
      if (reply.status === 201) this.state = { ...this.state, [name]: [...items, { ...reply.json<Value>(), ...value }] }
    } else if (!this.#isObject[name]) this.#listWritten(name, reply, method, wanted)
    else if (wanted === 'wrong' || (wanted === 'right' && !isThere)) assert.equal(reply.status, 412, reply.text)
    else if (!isThere && method !== 'PUT') assert.equal(reply.status, 404, reply.text)
    else {
      assert.equal(reply.status, isThere ? 204 : 201, reply.text)
      const { [name]: _, ...others } = this.state
      const patched = { ...(before as Value), ...value }
      this.state = method === 'DELETE' ? others : { ...this.state, [name]: method === 'PUT' ? value : patched }
    }
    this.#changed(Number(reply.headers['journal-position']))
  }

  /** A list has no PATCH, a PUT without a body creates it, and conditions are for items; DELETE with `all=true` removes it. */
  #listWritten(name: string, reply: Reply, method: string, wanted: string): void {
    const { [name]: before, ...others } = this.state
    if (method === 'PATCH') assert.equal(reply.status, 405, reply.text)
    else if (method === 'PUT' || wanted !== 'none') assert.equal(reply.status, 400, reply.text)
    else {
      assert.equal(reply.status, before ? 200 : 404, reply.text)
      this.state = others
    }
  }

  /** Changes one name in the data file. */
  async edit(): Promise<void> {
    // The edited file shows it, and so it cannot have been made from an older content.
    const latest = { n: this.#values++ }
    const marked = await this.#ask('PUT', '/api/marker', latest)
    this.state = { ...this.state, marker: latest }
    this.#changed(Number(marked.headers['journal-position']))
    await this.#ask('POST', '/admin/snapshot')
    assert.deepEqual(JSON.parse(await readFile(this.server.file, 'utf8')), this.state)
    const name = this.random.pick(NAMES)
    const { [name]: before, ...others } = this.state
    const items = Array.isArray(before) ? before : []
    const id = 1000 + this.#values
    const after = this.random.pick([undefined, this.value(), this.value(), [...items, { id, ...this.value() }]])
    this.state = after ? { ...this.state, [name]: after } : others
    await writeFile(this.server.file, JSON.stringify(this.state, null, this.random.pick([0, 2])))
    const reply = await this.#ask('POST', '/admin/reload')
    assert.equal(reply.status, 200, reply.text)
    this.#changed(Number(reply.headers['journal-position']))
  }

  async restore(): Promise<void> {
    const then = this.random.pick(this.#past)
    const name = this.random.chance(0.5) ? this.random.pick(NAMES) : undefined
    const reply = await this.#ask('POST', '/admin/restore', { to: then.position, ...(name && { collection: name }) })
    if (reply.status === 422) {
      assert.equal(this.#isObject[name ?? ''], undefined, reply.text)
      return
    }
    assert.equal(reply.status, 200, reply.text)
    const { [name ?? '']: _, ...others } = this.state
    const back = name === undefined ? then.state : { ...others, ...(then.state[name] && { [name]: then.state[name] }) }
    this.state = back
    this.#changed(Number(reply.headers['journal-position']))
  }

  /** Everything is as it should be, now and at every position that is known. */
  async check(): Promise<void> {
    const names = (await this.#ask('GET', '/api')).json<string[]>()
    assert.deepEqual(names.toSorted(), Object.keys(this.state).sort())
    for (const name of names) assert.deepEqual((await this.#ask('GET', `/api/${name}`)).json(), this.state[name])
    for (const { position, state } of this.#past.slice(-20)) {
      for (const name of NAMES) {
        const reply = await this.#ask('GET', `/api/${name}?asOf=${position}`)
        assert.deepEqual(reply.status === 404 ? undefined : reply.json(), state[name], `${name} at ${position}`)
      }
    }
  }

  #ask(method: string, path: string, body?: unknown, headers = {}): Promise<Reply> {
    const { url } = this.server
    return body === undefined ? send(url, method, path, { headers }) : sendJson(url, method, path, body, headers)
  }

  #changed(position: number): void {
    for (const [name, value] of Object.entries(this.state)) this.#isObject[name] = !Array.isArray(value)
    this.#past.push({ position, state: this.state })
  }
}

test('single objects equal a naive model through requests, file edits, restores and restarts', async (t) => {
  const random = new Random(SEED)
  const data = { a: { n: -1 }, b: [{ id: 5, n: -2 }], marker: {} }
  const first = await startProgram(t, { data })
  const { headers } = await send(first.url, 'GET', '/api')
  const model = new Model(first, random, data, Number(headers['journal-position']))
  for (let step = 0; step < STEPS; step++) {
    const kind = random.integer(20)
    if (kind < 6) await model.read()
    else if (kind < 16) await model.write()
    else if (kind < 18) await model.edit()
    else if (kind < 19) await model.restore()
    else await model.check()
    if (step % Math.ceil(STEPS / 3) !== 0 || step === 0) continue
    const isKilled = random.chance(0.5)
    await model.server.stop(isKilled ? 'SIGKILL' : 'SIGTERM')
    const { directory, file } = model.server
    if (!isKilled) assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), model.state)
    model.server = await startProgram(t, { directory })
    await model.check()
  }
  await model.check()
})
