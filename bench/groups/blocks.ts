import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { compileSchema } from '../../src/commands/schema-compiler.ts'
import { doorOf, harmless, measureRequest, open } from '../../test/security/cost-server.ts'
import { REQUESTS } from '../../test/security/costly-requests.ts'
import { queriesOf, storeLong, watchedWrites, workOn } from '../../test/security/long-items.ts'
import { ALL_DAY, FLAGS, grownStore, isCompacted } from '../../test/store/grown-store.ts'
import { once, until } from '../../test/support/deadline.ts'
import type { Scope } from '../../test/support/directory.ts'
import { LONG_VALUES, longObjects } from '../../test/support/long-json.ts'
import { type ProbedServer, startProbed } from '../../test/support/probe.ts'
import { openClosing } from '../../test/support/raw.ts'
import { told } from '../harness/ask.ts'
import type { Bench, Group } from '../harness/bench.ts'
import { type Blocks, type Measurement, rowOf, scoped, shortest } from '../harness/blocks.ts'
import { boundedRow, type Row } from '../harness/figures.ts'

const BLOCK_MS = 30
/** The size of many short items together. */
const BYTES = 400_000
const JSON_BODY = { 'Content-Type': 'application/json' }

/**
 * Costly requests, each compared with a harmless one of the same round. Processor time of the main thread counts, so
 * that other processes do not.
 */
export const blocks: Group = {
  name: 'blocks',
  about: 'for how long costly requests block the event loop, against harmless ones of their size',
  async measure(bench) {
    const rows: Row[] = []
    for (const measurement of MEASUREMENTS) rows.push(await rowOf(bench, measurement))
    return [...rows, await described(bench), await compacted(bench)]
  },
}

const MEASUREMENTS: readonly Measurement[] = [
  {
    work: 'a write of, or a look inside, a long item of any shape',
    harmless: 'a single text',
    most: 6,
    async begin(t) {
      const server = await startProbed(t, { data: { c: [] } })
      const { 'a text': text = {}, ...others } = longObjects()
      const blocksOf = async (item: typeof text): Promise<readonly (readonly [string, number])[]> => {
        const measured: [string, number][] = []
        await workOn(server, item, async (name, work) => measured.push([name, await server.longestBlock(work, 1)]))
        return measured
      }
      return async () => {
        const harmless = Math.max(...(await blocksOf(text)).map(([, block]) => block))
        const all: Blocks[] = []
        for (const [shape, item] of Object.entries(others)) {
          for (const [name, costly] of await blocksOf(item)) all.push({ what: `${name}, ${shape}`, costly, harmless })
        }
        return all
      }
    },
  },
  {
    work: 'a request with a long header, path, query or body of any kind',
    harmless: 'storing a text of a mebibyte',
    most: 20,
    async begin(t) {
      const servers = { open: await open(t, 'open'), guarded: await open(t, 'guarded') }
      return async () => {
        const least = await harmless(servers.open)
        const all: Blocks[] = []
        for (const [what, { most, request }] of Object.entries(REQUESTS)) {
          const { block } = await measureRequest(servers[doorOf(what)], request(most))
          all.push({ what, costly: block, harmless: least })
        }
        return all
      }
    },
  },
  {
    work: 'a query of long items of any shape',
    harmless: 'of short items',
    most: 15,
    async begin(t) {
      const short = Array.from({ length: BYTES / 100 }, (_, id) => ({ id, n: id, text: 'x'.repeat(80) }))
      const { url, longestBlock } = await startProbed(t, { data: { short } })
      for (const [shape, json] of Object.entries(LONG_VALUES)) await storeLong(url, shape, json)
      const blockOf = async (collection: string) => longestBlock(await queriesOf(url, collection), 2)
      return async () => {
        const harmless = await blockOf('short')
        const all: Blocks[] = []
        for (const shape of Object.keys(LONG_VALUES)) {
          all.push({ what: shape, costly: await blockOf(shape), harmless })
        }
        return all
      }
    },
  },
  {
    work: 'a write of a long item that a hundred subscriptions ask about',
    harmless: 'without subscriptions',
    most: 10,
    async begin(t) {
      const { url, longestBlock } = await startProbed(t, { data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
      return async () => {
        const all: Blocks[] = []
        for (const [shape, json] of Object.entries(LONG_VALUES)) {
          await scoped(async (own) => {
            const { watched, deaf } = await watchedWrites(own, url, shape, json)
            all.push({ what: shape, harmless: await longestBlock(deaf, 2), costly: await longestBlock(watched, 2) })
          })
        }
        return all
      }
    },
  },
  {
    work: 'twenty searches of a journal at once',
    harmless: 'one',
    most: 5,
    async begin(t) {
      const { url, longestBlock } = await journalServer(t)
      const search = () => told(`${url}/events?actor=nobody`)
      return async () => {
        const harmless = await longestBlock(search, 2)
        const costly = await longestBlock(() => Promise.all(Array.from({ length: 20 }, search)), 2)
        return [{ what: 'an actor without events', harmless, costly }]
      }
    },
  },
  {
    work: 'sixty followers of the journal that do not read',
    harmless: 'a page of 500 events',
    most: 5,
    async begin(t) {
      const { url, longestBlock } = await journalServer(t)
      return async () => {
        const harmless = await longestBlock(() => told(`${url}/events?limit=500`), 2)
        const costly = await longestBlock(() => scoped((own) => followUnread(own, url)), 2)
        return [{ what: 'event streams', harmless, costly }]
      }
    },
  },
  {
    work: 'two thousand pipelined requests of one connection',
    harmless: 'the time for all of them',
    most: 1 / 8,
    async begin(t) {
      const { url, longestBlock } = await startProbed(t)
      return async () => {
        let harmless = 0
        const costly = await longestBlock(async () => {
          const connection = await openClosing(t, url)
          const began = performance.now()
          connection.socket.write('GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2000))
          for (let n = 0; n < 2000; n++) assert.equal((await connection.next())?.status, 200)
          harmless = performance.now() - began
        }, 1)
        return [{ what: 'GET /api', costly, harmless }]
      }
    },
  },
  {
    work: 'an edit of an outdated copy of the data file',
    harmless: 'of the last content',
    most: 10,
    async begin(t) {
      const items = Array.from({ length: 15_000 }, (_, id) => ({ id, n: 0, text: 'an item of a large file' }))
      const server = await startProbed(t, { data: { things: items } })
      let edited = 0
      return async () => {
        const opened = await put(server, 1)
        const last = await put(server, 30)
        const harmless = await edit(server, last, ++edited)
        await put(server, 0)
        const costly = await edit(server, opened, ++edited)
        return [{ what: '30 writes later', costly, harmless }]
      }
    },
  },
  {
    work: 'checking a long value against a schema',
    harmless: 'writing 10,000 objects as JSON',
    most: 100,
    begin: async () => async () => {
      const objects = Array.from({ length: 10_000 }, (_, index) => ({ index }))
      const texts = Array.from({ length: 10_000 }, (_, index) => `text ${index}`)
      const colons = `http://${':'.repeat(20_000)}`
      const harmless = shortest(() => JSON.stringify(objects))
      const checks = [
        ['uniqueItems', { uniqueItems: true }, objects],
        ['enum', { items: { enum: texts } }, Array(10_000).fill(texts.at(-1))],
        ['a url', { format: 'url' }, colons],
        ['a regex', { format: 'regex' }, colons],
      ] as const
      return checks.map(([what, schema, a]) => {
        const faultsOf = compileSchema({ properties: { a: schema } })
        return { what, costly: shortest(() => faultsOf({ a })), harmless }
      })
    },
  },
]

/** The description of wide items. Its row has a bound in milliseconds, as no harmless request describes as much. */
async function described(bench: Bench): Promise<Row> {
  return scoped(async (t) => {
    const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`member${index}`, 'x'.repeat(400)]))
    const items = Array.from({ length: 20 }, (_, id) => ({ id, ...wide }))
    const { url, longestBlock } = await startProbed(t, { data: { a: items, c: [{ id: 0 }] } })
    // The first request loads modules.
    await told(`${url}/openapi.json`)
    const values: number[] = []
    for (let round = 0; round < bench.rounds; round++) {
      const block = await longestBlock(async (time) => {
        await told(`${url}/api/c/0`, { method: 'PUT', headers: JSON_BODY, body: JSON.stringify({ round, time }) })
        await told(`${url}/openapi.json`)
      })
      values.push(block)
    }
    return boundedRow('longest block of the event loop: describing wide items', { unit: 'ms', values }, BLOCK_MS)
  })
}

/** The compaction of a store while a client writes. */
async function compacted(bench: Bench): Promise<Row> {
  const values: number[] = []
  for (let round = 0; round < bench.rounds; round++) {
    await scoped(async (t) => {
      const directory = await grownStore(t, 20_000)
      const server = await startProbed(t, { directory, flags: [...FLAGS, ...ALL_DAY] })
      const block = await server.longestBlock(async () => {
        for (let n = 0; !isCompacted(server.stderr()); n++) {
          await told(`${server.url}/api/a/${n % 20_000}`, { method: 'PUT', headers: JSON_BODY, body: `{"n":${n}}` })
        }
      }, 1)
      values.push(block)
    })
  }
  return boundedRow('longest block of the event loop: compacting a store', { unit: 'ms', values }, BLOCK_MS)
}

function journalServer(t: Scope): Promise<ProbedServer> {
  return startProbed(t, { data: { a: Array.from({ length: 20_000 }, (_, id) => ({ id, text: 'some text' })) } })
}

/** Opens streams of events of which nothing is read, and asks for something else meanwhile. */
async function followUnread(t: Scope, url: string): Promise<void> {
  await Promise.all(
    Array.from({ length: 60 }, async () => {
      const headers = { Accept: 'text/event-stream' }
      const asked = request(`${url}/events?follow=true`, { headers, agent: false }).end()
      t.after(async () => asked.destroy())
      asked.on('error', () => {})
      const [response] = (await once(asked, 'response')) as [IncomingMessage]
      response.pause()
    }),
  )
  for (let asked = 0; asked < 20; asked++) await told(`${url}/health`)
}

/** Writes the first items, so many of them; resolves with the content of the data file after it. */
async function put({ url, directory }: ProbedServer, count: number): Promise<string> {
  for (let id = 0; id < count; id++) {
    const body = JSON.stringify({ n: Math.random() })
    await told(`${url}/api/things/${id}`, { method: 'PUT', headers: JSON_BODY, body })
  }
  await told(`${url}/admin/snapshot`, { method: 'POST' })
  await until('the data file to be written', async () => {
    const { dataFile } = (await (await fetch(`${url}/health`)).json()) as { dataFile: { state: string } }
    return dataFile.state === 'current'
  })
  return readFile(join(directory, 'db.json'), 'utf8')
}

/** The block by the edit of an item which the others leave alone. */
async function edit({ url, directory, longestBlock }: ProbedServer, text: string, id: number): Promise<number> {
  const edited = text.replace(`{"id":${1000 + id},"n":0`, `{"id":${1000 + id},"n":9`)
  assert.notEqual(edited, text)
  return longestBlock(async () => {
    await writeFile(join(directory, 'db.json'), edited)
    await told(`${url}/admin/reload`, { method: 'POST' })
  }, 1)
}
