import { readFile, truncate, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { within } from '../support/deadline.ts'
import { swaggerAsset } from '../support/pages.ts'
import { Random } from '../support/random.ts'
import { OPERATIONS, SHAPES, subjectOf } from './cost-operations.ts'
import { POST, REQUESTS } from './costly-requests.ts'
import { BODIES, CLIENTS, MORE_CLIENTS } from './memory-bodies.ts'
import type { Attackers, Reading } from './memory-clients.ts'
import type { Attack } from './memory-server.ts'

const NDJSON = 'application/x-ndjson'
const CSV = 'text/csv'
const EVENT_STREAM = 'text/event-stream'

interface Asked {
  readonly reading?: Reading
  readonly accept?: string
  readonly clients?: number
}

/** Clients with a path each: equal requests may share a response. */
function get(path: (index: number) => string, asked: Asked = {}): Attack {
  const { reading = 'all', accept = 'application/json', clients = CLIENTS } = asked
  return {
    clients,
    isUnread: reading !== 'all',
    act: (attackers, index) =>
      attackers.ask({ method: 'GET', path: path(index), headers: { Accept: accept } }, { reading }),
  }
}

function unread(path: (index: number) => string, asked: Asked = {}): Attack {
  return get(path, { reading: 'nothing', ...asked })
}

/** A filter that all items match. */
const any = (index: number): string => `id_gte=-${index}`
const largePage = (index: number): string => `/api/large?take=250&skip=0&${any(index)}`
const manyItems = (index: number): string => `/api/small?take=10000&skip=${index}`

/** Values of a filter, which differ by client. They are parsed as several types each. */
const values = (index: number): string => Array.from({ length: 1900 }, (_, n) => index * 10_000 + n).join(',')

const PAGES: Readonly<Record<string, Attack>> = {
  'pages of large items, not read': unread(largePage),
  'pages of large items, read slowly': get(largePage, { reading: 'slowly' }),
  'pages of large items, read': get((index) => `/api/large?take=40&skip=${index % 50}`),
  'one page of large items, not read': unread(() => '/api/large?take=250&skip=0'),
  'pages of large items as NDJSON, not read': unread(largePage, { accept: NDJSON }),
  'pages of large items as CSV, not read': unread(largePage, { accept: CSV }),
  'pages of fields of large items, not read': unread((index) => `${largePage(index)}&fields=text`),
  'pages of many items, not read': unread(manyItems),
  'pages of many items, read': get(manyItems),
  'pages of many items as CSV, not read': unread(manyItems, { accept: CSV }),
  'pages of fields of many items': get((index) => `${manyItems(index)}&fields=n,text`),
  'large items, not read': unread((index) => `/api/large/${index % 90}`, { clients: MORE_CLIENTS }),
  'values of large items, not read': unread((index) => `/api/large/${index % 90}/text`, { clients: MORE_CLIENTS }),
  'whole results of large items, not read': unread((index) => `/api/large?all=true&${any(index)}`),
  'whole results as NDJSON, not read': unread((index) => `/api/small?all=true&${any(index)}`, { accept: NDJSON }),
  'whole results as CSV, not read': unread((index) => `/api/large?all=true&${any(index)}`, { accept: CSV }),
  'whole results as CSV, read': get((index) => `/api/nested?all=true&${any(index)}`, { accept: CSV }),
  'whole results that are sorted, not read': unread((index) => `/api/small?all=true&sort=-text&${any(index)}`),
  'embedded items, not read': unread((index) => `/api/posts?_embed=comments&${any(index)}`),
  'embedded items, read': get((index) => `/api/posts?_embed=comments&${any(index)}`),
  'expanded items, not read': unread((index) => `/api/comments?_expand=post&take=10000&skip=${index}`),
}

const QUERIES: Readonly<Record<string, Attack>> = {
  'a sort by long texts': get((index) => `/api/large?sort=-text&take=10&skip=0&${any(index)}`),
  'a sort by many fields': get((index) => `/api/small?sort=text,-n,k,-id&take=10000&skip=${index * 100}`),
  'groups by distinct texts': get((index) => `/api/small?aggregate=count,max(text)&groupBy=text&${any(index)}`),
  'groups by long texts': get(
    (index) => `/api/comments?aggregate=count,min(text),max(text)&groupBy=text&id_lt=1500&${any(index)}`,
  ),
  'groups by too many long texts': get((index) => `/api/comments?aggregate=count&groupBy=text&${any(index)}`),
  'groups by long texts, not read': unread(
    (index) => `/api/comments?aggregate=count,min(text)&groupBy=id,text&take=10000&skip=0&${any(index)}`,
  ),
  'groups by large texts': get((index) => `/api/large?aggregate=count,min(text),max(text)&groupBy=text&${any(index)}`),
  'groups that are sorted': get(
    (index) => `/api/comments?aggregate=count,max(text)&groupBy=id&sort=-max(text)&${any(index)}`,
  ),
  // A large heap has room for all of them, and each takes two seconds.
  percentiles: get((index) => `/api/nested?aggregate=p50(list)&${any(index)}`, { clients: 32 }),
  'percentiles of groups': get((index) => `/api/nested?aggregate=p50(list)&groupBy=id&${any(index)}`, { clients: 32 }),
  deltas: get((index) => `/api/nested?aggregate=delta(list)&${any(index)}`),
  'distinct texts': get((index) => `/api/small?distinct=text&id_lt=9000&take=9000&skip=${index}`),
  'distinct large texts, not read': unread((index) => `/api/large?distinct=text&${any(index)}`),
  'texts that are nowhere': get((index) => `/api/large?q=zz${index}`),
  'long queries': get((index) => `/api/comments?n_in=${values(index)}&q=zz`, { clients: 2 * MORE_CLIENTS }),
  'deletions, tried': {
    clients: CLIENTS,
    act: (attackers, index) => attackers.ask({ method: 'DELETE', path: `/api/small?${any(index)}&dryRun=true` }),
  },
}

const EVENTS: Readonly<Record<string, Attack>> = {
  'pages of events, not read': unread((index) => `/events?limit=10000&from=${index + 1}`),
  'pages of events of large items, not read': unread((index) => `/events?limit=250&collection=large&from=${index + 1}`),
  'pages of events of large items, read': get((index) => `/events?limit=250&collection=large&from=${index + 1}`),
  'pages of the last events, not read': unread((index) => `/events?limit=${5000 + index}&order=desc`),
  'the last deletions': get((index) => `/events?type=ItemDeleted&order=desc&limit=2&from=${10_000_000 - index}`),
  'the last event of large items': get((index) => `/events?collection=large&id=${index}&limit=1&order=desc`),
  'events as NDJSON, not read': unread((index) => `/events?from=${index + 1}`, { accept: NDJSON }),
  'events of large items as a stream, not read': unread((index) => `/events?collection=large&from=${index + 1}`, {
    accept: EVENT_STREAM,
  }),
}

/** A position for each client, spread over the changes. */
function positionOf({ target: { changes } }: Attackers, index: number, clients: number): number {
  return Math.floor(changes.first + ((changes.last - changes.first) * index) / clients)
}

function past(
  path: (position: number, index: number) => string,
  { reading = 'all', clients = CLIENTS }: Asked = {},
): Attack {
  return {
    clients,
    isUnread: reading !== 'all',
    act: (attackers, index) =>
      attackers.ask({ method: 'GET', path: path(positionOf(attackers, index, clients), index) }, { reading }),
  }
}

function restore(dryRun: boolean, collection?: string, clients = CLIENTS): Attack {
  return {
    clients,
    act(attackers, index) {
      const wanted = { to: positionOf(attackers, index, clients), dryRun, ...(collection && { collection }) }
      return attackers.ask({ ...POST, path: '/admin/restore', body: JSON.stringify(wanted) })
    },
  }
}

const PASTS: Readonly<Record<string, Attack>> = {
  'past states': past((position) => `/api/changed?asOf=${position}&take=10&skip=0`),
  'past states of large items': past((position) => `/api/large?asOf=${position}&take=10&skip=0`),
  'past pages of large items, not read': past((position) => `/api/large?asOf=${position}&take=250&skip=0`, {
    reading: 'nothing',
  }),
  // Each folds the journal, as too many items have changed since.
  'past states of deleted items': past((position) => `/api/former?asOf=${position}&take=10&skip=0`, { clients: 8 }),
  'past groups': past((position) => `/api/changed?asOf=${position}&aggregate=count,max(text)&groupBy=text`),
  'past items, not read': past((position, index) => `/api/large/${index % 90}?asOf=${position}`, {
    reading: 'nothing',
    clients: MORE_CLIENTS,
  }),
  'restores, tried': restore(true, undefined, 8),
  'restores of deleted items, tried': restore(true, 'former', 8),
  'restores of large items, tried': restore(true, 'large'),
  'restores of deleted items': restore(false, 'former', 4),
}

function admin(path: string, reading: Reading = 'all'): Attack {
  return {
    clients: CLIENTS,
    isUnread: reading !== 'all',
    act: (attackers) => attackers.ask({ method: 'POST', path }, { reading }),
  }
}

const OTHERS: Readonly<Record<string, Attack>> = {
  'subscriptions to many items, not read': subscribe('small', () => 'id_lt=9000'),
  'subscriptions to large items, not read': subscribe('large', () => 'id_lt=14'),
  'subscriptions to long items, not read': subscribe('comments', () => 'id_lt=5000'),
  'subscriptions to long queries, not read': subscribe('posts', (time) => `id_in=${values(time)}`, 100),
  'subscriptions that wait for long searches': subscribe('comments', (time) => `n_in=${values(time)}&q=zz`, 250),
  'an edit that adds many items': edit(() => Array.from({ length: 300_000 }, () => '{}').join()),
  'an edit that adds long items': edit((n) =>
    Array(100)
      .fill(`{"text":"${String(n).repeat(500_000)}"}`)
      .join(),
  ),
  'verifications, not read': admin('/admin/verify', 'nothing'),
  snapshots: admin('/admin/snapshot'),
  'reloads of settings': admin('/admin/settings/reload'),
  'the description, not read': unread(() => '/openapi.json', { accept: '*/*', clients: MORE_CLIENTS }),
  'metrics, not read': unread(() => '/metrics', { accept: '*/*', clients: MORE_CLIENTS }),
  'a static file, not read': unread(() => swaggerAsset('swagger-ui-bundle.js'), {
    accept: '*/*',
    clients: MORE_CLIENTS,
  }),
  'requests without end, not read': pipeline(
    (n) => `GET /api/large?take=20&skip=0&${any(n)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  ),
  'writes without end, not read': pipeline((n) => {
    const body = `{"n":${n}}`
    const head = `PATCH /api/comments/${n % 1000} HTTP/1.1\r\nHost: localhost\r\nPrefer: return=representation\r\n`
    return `${head}Content-Type: application/merge-patch+json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }, MORE_CLIENTS),
  'costly requests': {
    clients: Object.keys(REQUESTS).length,
    async act(attackers, index) {
      const { most, request } = Object.values(REQUESTS)[index] as (typeof REQUESTS)[string]
      const made = request(most)
      if (made.bytes === undefined) await attackers.ask(made)
    },
  },
}

/** Sockets that subscribe again and again, and read nothing. */
function subscribe(collection: string, queryOf: (time: number) => string, times = 20): Attack {
  return {
    clients: CLIENTS,
    isUnread: true,
    async act(attackers) {
      const url = attackers.target.url.replace('http', 'ws')
      const socket = new WebSocket(`${url}/socket.io/?EIO=4&transport=websocket`)
      attackers.atEnd(() => socket.terminate())
      socket.on('error', () => {})
      socket.once('message', () => socket.send('40'))
      await within(
        'a subscription, or the end of its socket',
        new Promise<void>((resolve) => {
          socket.on('close', () => {
            if (!attackers.isOver) attackers.note('disconnected')
            resolve()
          })
          socket.on('message', (data) => {
            if (!String(data).startsWith('40')) return
            for (let time = 0; time < times; time++)
              socket.send(`42${time}${JSON.stringify(['subscribe', { collection, query: queryOf(time) }])}`)
            socket.pause()
            attackers.note('subscribed')
            resolve()
          })
        }),
      )
    },
  }
}

/** A collection is added to the data file, which all clients have merged, and removed again. */
function edit(items: (n: number) => string): Attack {
  let edits = 0
  return {
    // Each reads the whole data file.
    clients: 8,
    async act(attackers, index) {
      const reload = (): Promise<void> => attackers.ask({ method: 'POST', path: '/admin/reload' })
      if (index > 0) return reload()
      const file = join(attackers.target.directory, 'db.json')
      const length = (await readFile(file)).lastIndexOf('}')
      edits++
      await truncate(file, length)
      await writeFile(file, `,"added${edits}":[${items(edits)}]}`, { flag: 'a' })
      await reload()
      await truncate(file, length)
      await writeFile(file, '}', { flag: 'a' })
      await reload()
    },
  }
}

function pipeline(requestOf: (n: number) => string, clients = CLIENTS): Attack {
  return {
    clients,
    isUnread: true,
    async act(attackers, index) {
      const { hostname, port } = new URL(attackers.target.url)
      const socket = connect(Number(port), hostname).on('error', () => {})
      attackers.atEnd(() => socket.destroy())
      socket.pause()
      socket.write(Array.from({ length: 100 }, (_, time) => requestOf(index * 100 + time)).join(''))
    },
  }
}

/** Operations on an item of each client, of a random shape. Those that reload would read the whole data file. */
function operations(random: Random): Attack {
  const names = Object.keys(OPERATIONS).filter((name) => !name.startsWith('reload'))
  return {
    clients: CLIENTS,
    async act({ target }, index) {
      const own = new Random(random.integer(2 ** 32))
      const value = (SHAPES[own.pick(Object.keys(SHAPES))] as (typeof SHAPES)[string])(2 ** 20 - 100, own)
      const subject = await subjectOf(target, `own${index}`, value, own)
      if (!subject) return
      for (let time = 0; time < 5; time++) await OPERATIONS[own.pick(names)]?.(subject)
    },
  }
}

export const ATTACKS: Readonly<Record<string, Attack>> = {
  ...BODIES,
  ...PAGES,
  ...QUERIES,
  ...EVENTS,
  ...PASTS,
  ...OTHERS,
}

/** Each client makes an attack of its own, or all of them random operations on items. */
export function randomAttack(random: Random): Attack {
  if (random.chance(0.2)) return operations(random)
  const attacks = Object.values(ATTACKS).filter(({ clients }) => clients > 1)
  const chosen = Array.from({ length: CLIENTS }, () => random.pick(attacks))
  return {
    clients: CLIENTS,
    isUnread: true,
    act: (attackers, index) => (chosen[index] as Attack).act(attackers, index),
  }
}
