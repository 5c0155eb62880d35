import { Readable } from 'node:stream'
import Router from '@koa/router'
import type { Context } from 'koa'
import type { CommandHandler } from '../commands/handler.ts'
import type { ImportOutcome } from '../commands/outcome.ts'
import type { Restoration, RestoredCollection } from '../commands/restore.ts'
import type { Position } from '../events/event.ts'
import type { Journal, Origin } from '../events/journal.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonValue } from '../json/value.ts'
import { parseMoment } from '../projections/moment.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { type CollectionSnapshot, itemsOf } from '../query/collection-snapshot.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import { Slices } from '../runtime/time-slices.ts'
import { NDJSON_TYPE, sendJson } from './answers.ts'
import { JSON_TYPE, readBody } from './bodies.ts'
import { principalOf } from './guard.ts'
import { bodyOf, jsonBody } from './koa-body.ts'
import { type Building, checkBuilt } from './once-built.ts'
import { authorOf } from './requests.ts'
import { resource } from './resource.ts'
import { Verification, type Verify } from './verification.ts'

export interface Health {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly [name: string]: unknown
}

export interface AdminOptions {
  readonly health: () => Health
  /** The active authentication schemes; none if authentication is off. */
  readonly schemes: readonly string[]
  /** The field of the event time of each collection that has one. */
  readonly eventTime: Readonly<Record<string, string>>
  /** Warnings about settings, shown to admins only. */
  readonly warnings: readonly string[]
  readonly building: () => Building
  readonly reload: () => Promise<ImportOutcome>
  readonly snapshot: () => Promise<Position>
  /** Undefined if the server does not own the journal. */
  readonly verify: Verify
  readonly handler: Pick<CommandHandler, 'restore'>
  readonly views: Views
  readonly past: Past
  readonly journal: Pick<Journal, 'head' | 'read'>
  readonly now: () => Date
  readonly bodyBytes: number
}

export function adminRoutes(options: AdminOptions): Router {
  const { health, schemes, eventTime, warnings, building, reload, snapshot, verify } = options
  const { handler, views, past, journal, now, bodyBytes } = options
  const router = new Router({ sensitive: true })
  const slices = new Slices()

  resource(router, '/health', {
    GET: (ctx) => {
      const state = health()
      ctx.set('Cache-Control', 'no-store')
      const who = principalOf(ctx)
      const access = { schemes, actor: who?.actor ?? null, role: who?.role ?? null }
      const told = { ...state, ...(who && { eventTime }), access }
      const text = who?.role === 'admin' ? JSON.stringify({ ...told, warnings }) : JSON.stringify(told, withoutDetails)
      sendJson(ctx, text, state.status === 'unavailable' ? 503 : 200)
    },
  })

  resource(router, '/admin/reload', {
    POST: async (ctx) => {
      checkBuilt(building())
      const { basis, events, conflicts, basedOn } = await reload()
      ctx.set('Journal-Position', String(basis + events))
      sendJson(ctx, JSON.stringify({ position: basis + events, events, basedOn, conflicts }))
    },
  })

  resource(router, '/admin/snapshot', {
    POST: async (ctx) => {
      checkBuilt(building())
      const position = await snapshot()
      ctx.set('Journal-Position', String(position))
      sendJson(ctx, JSON.stringify({ position }))
    },
  })

  const verification = new Verification(verify, journal)
  resource(router, '/admin/verify', {
    POST: (ctx) => {
      const { lines, stop } = verification.begin()
      ctx.res.once('close', stop)
      ctx.set('Content-Type', NDJSON_TYPE)
      ctx.set('Cache-Control', 'no-store')
      ctx.body = Readable.from(lines)
    },
  })

  const restoring = {
    POST: async (ctx: Context) => {
      const source = { headers: ctx.headers, bytes: async () => bodyOf(ctx) }
      const { json } = await readBody(source, [JSON_TYPE], slices)
      const wanted = await parseRestore(json, { journal, now })
      checkBuilt(building())
      const { position, events } = await restore(wanted, authorOf(ctx))
      ctx.set('Journal-Position', String(position))
      const changes = events.slice(0, CHANGES).map(({ type, collection, ...event }) => ({
        type,
        collection,
        ...('id' in event && { id: event.id }),
      }))
      sendJson(ctx, JSON.stringify({ position, dryRun: wanted.dryRun, events: events.length, changes }))
    },
  }
  resource(router, '/admin/restore', restoring, { body: jsonBody(bodyBytes) })

  return router

  async function restore(request: RestoreRequest, author: Origin) {
    const former: CollectionSnapshot[] = []
    try {
      return await handler.restore(await restorationOf(request, former), author, request.dryRun)
    } finally {
      for (const reading of former) reading.release()
    }
  }

  /** Readings that must be released after use are added to `former`. */
  async function restorationOf(
    { to, collection, key }: RestoreRequest,
    former: CollectionSnapshot[],
  ): Promise<Restoration> {
    if (collection !== undefined && !views.any(collection)) {
      throw new Refusal('Unprocessable', `There never was a collection ${JSON.stringify(collection)}.`, [
        { pointer: '/collection', message: 'must name a collection' },
      ])
    }
    if (collection !== undefined && key !== undefined) {
      return { type: 'item', collection, key, item: await past.item(collection, key, to) }
    }
    const collections = new Map<string, RestoredCollection | undefined>()
    for (const name of collection === undefined ? views.namesEver() : [collection]) {
      const reading = past.existed(name, to) ? await past.collection(name, to) : undefined
      if (reading) former.push(reading)
      collections.set(name, reading && { items: () => itemsOf(reading) })
    }
    return { type: 'collections', collections }
  }
}

/** Error details name items and paths, so only admins see them. */
function withoutDetails(name: string, value: unknown): unknown {
  return name === 'detail' || name === 'cut' || name === 'urls' || name === 'segments' ? undefined : value
}

/** Highest number of changes in the response; the journal has all of them. */
const CHANGES = 1000

const RESTORE = ['to', 'collection', 'id', 'dryRun']
/** Highest number of reported mistakes; a request may have a hundred thousand. */
const FAULTS = 20

interface RestoreRequest {
  readonly to: Position
  readonly collection?: string
  readonly key?: string
  readonly dryRun: boolean
}

async function parseRestore(
  json: JsonValue,
  { journal, now }: Pick<AdminOptions, 'journal' | 'now'>,
): Promise<RestoreRequest> {
  if (!isObject(json)) throw new Refusal('Unprocessable', 'The request must be an object, such as {"to": 42}.')
  const { to, collection, id, dryRun = false } = json
  const faults: Fault[] = []
  const check = (isRight: boolean, name: string, message: string): void => {
    if (!isRight) faults.push({ pointer: pointer([name]), message })
  }
  check(typeof to === 'string' || typeof to === 'number', 'to', 'must be a position or an ISO 8601 date-time')
  check(collection === undefined || typeof collection === 'string', 'collection', 'must be text')
  check(id === undefined || typeof id === 'string' || typeof id === 'number', 'id', 'must be text or a number')
  check(id === undefined || collection !== undefined, 'id', 'needs the collection, too')
  check(typeof dryRun === 'boolean', 'dryRun', 'must be true or false')
  for (const name in json) {
    if (faults.length >= FAULTS) break
    check(RESTORE.includes(name), name, `is not known; there are ${RESTORE.join(', ')}`)
  }
  if (faults.length > 0) throw new Refusal('Unprocessable', 'The request is not a valid restore request.', faults)
  return {
    to: await parseMoment(String(to), 'to', journal, now),
    dryRun: dryRun === true,
    ...(typeof collection === 'string' && { collection }),
    ...(id !== undefined && { key: String(id) }),
  }
}
