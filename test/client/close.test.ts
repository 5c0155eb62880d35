import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { until, within } from '../support/deadline.ts'
import { lineTo } from '../support/listeners.ts'
import { startProcess } from '../support/process.ts'
import { startServer } from '../support/service.ts'

const CLIENT = new URL('../../dist/client/index.js', import.meta.url).href

test('a program exits when it has closed its client, whatever was open', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 1 }] } })
  const program = `
    import { connect } from ${JSON.stringify(CLIENT)}
    const client = connect(${JSON.stringify(server.url)})
    const nowhere = connect('http://127.0.0.1:1')
    nowhere.collection('a').live()
    const list = client.collection('a').live()
    client.collection('b').live()
    client.onUpdated(() => {})
    await list.ready
    const following = (async () => { for await (const _ of client.events({ follow: true })) {} })()
    const iterating = (async () => { for await (const _ of list) {} })()
    setTimeout(async () => {
      client.close()
      nowhere.close()
      await iterating
      await following.catch(({ name }) => console.log(name, list.items.length, client.state))
    }, 100)`
  const run = startProcess(t, [process.execPath, '--input-type=module', '-e', program])
  const { code } = await run.ended()
  assert.deepEqual([code, run.output()], [0, 'AbortError 1 closed\n'])
})

test('a client that sends thousands of requests causes no warning', async (t) => {
  const { url } = await startServer(t, { data: { a: [{ id: 1 }] } })
  const warnings: unknown[] = []
  const warned = (warning: unknown) => warnings.push(warning)
  process.on('warning', warned)
  t.after(() => process.off('warning', warned))
  const client = connect(url)
  for (let round = 0; round < 100; round++) {
    await Promise.all(Array.from({ length: 30 }, () => client.collection('a').item(1).get()))
  }
  assert.deepEqual(warnings, [])
})

test('a client that only sends requests opens no socket and need not be closed', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 1 }] } })
  const program = `
    import { connect } from ${JSON.stringify(CLIENT)}
    const client = connect(${JSON.stringify(server.url)})
    const { items } = await client.collection('a').get()
    console.log(items.length, (await client.health()).status, client.state)`
  const run = startProcess(t, [process.execPath, '--input-type=module', '-e', program])
  const { code } = await run.ended()
  assert.deepEqual([code, run.output()], [0, '1 ok idle\n'])
})

test('a closed client sends nothing and calls no listener', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 1 }] } })
  const line = await lineTo(t, server.url)
  const client = connect(line.url)
  const states: string[] = []
  client.onState(({ state }) => states.push(state))
  const list = client.collection('a').live()
  await within('the items of a live list', list.ready)
  client.close()
  client.close()
  await until('the connection to end', () => line.carried === 0)
  assert.equal(list.isClosed, true)
  assert.deepEqual(states.slice(-2), ['connected', 'closed'])
  await assert.rejects(client.collections(), { name: 'AbortError' })
  const late = client.collection('a').live()
  await assert.rejects(within('the items of a live list', late.ready), { code: 'Closed' })
  client.authenticate({ token: 'x' })
  assert.equal(line.carried, 0)
})

test('creating a client without an address outside of a page fails', () => {
  assert.throws(() => connect(), TypeError)
})

test('a page of a file or a data URL, whose origin is null, creates a client of a full address alone', (t) => {
  Object.defineProperty(globalThis, 'location', { configurable: true, value: { origin: 'null' } })
  t.after(() => Reflect.deleteProperty(globalThis, 'location'))
  assert.equal(connect('http://localhost:57602/').url, 'http://localhost:57602')
  assert.throws(() => connect(), TypeError)
})
