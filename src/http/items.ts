import Router from '@koa/router'
import type { Context } from 'koa'
import type { Command } from '../commands/command.ts'
import type { CommandHandler, Outcome } from '../commands/handler.ts'
import { Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { valueAt } from '../json/pointer.ts'
import { tagOf } from '../json/tag.ts'
import { collectionPath, itemPath } from '../projections/address.ts'
import type { Past } from '../projections/past.ts'
import { answer } from '../projections/query/answer.ts'
import { pageLinks, parseQuery } from '../projections/query/query.ts'
import type { Views } from '../projections/views.ts'
import { isNotModified, sendJson } from './answers.ts'
import { parseAsOf } from './as-of.ts'
import { type Body, bodyReader, JSON_TYPE, PATCH_TYPES, parseAnyPatch, parseItem } from './bodies.ts'
import {
  apiSegments,
  type HttpQueryLimits,
  originOf,
  parametersOf,
  parseTags,
  wantsRepresentation,
} from './requests.ts'
import { resource } from './resource.ts'

export interface ItemsOptions {
  readonly views: Views
  readonly handler: Pick<CommandHandler, 'handle'>
  readonly past: Past
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  readonly now: () => Date
  readonly bodyBytes: number
  readonly limits: HttpQueryLimits
}

/** Clients accept headers of 16 KiB in all. */
const LINK_BYTES = 8 * 1024

/** `/api`: the collections and their items. */
export function itemRoutes({ views, handler, past, journal, now, bodyBytes, limits }: ItemsOptions): Router {
  const router = new Router({ sensitive: true })
  const readItem = bodyReader([JSON_TYPE], bodyBytes)
  const readPatch = bodyReader(PATCH_TYPES, bodyBytes)

  resource(router, '/api', {
    GET: async (ctx) => {
      const at = await momentOf(ctx)
      const names = JSON.stringify(at === undefined ? views.names() : past.names(at))
      if (!isNotModified(ctx, tagOf(names))) sendJson(ctx, names)
    },
  })

  resource(router, '/api/:collection', {
    GET: async (ctx) => {
      const [name] = apiSegments(ctx) as [string]
      const at = await momentOf(ctx)
      const collection =
        at === undefined ? views.find(name) : past.existed(name, at) && (await past.collection(name, at))
      if (!collection) throw new Refusal('NotFound', `There is no collection ${JSON.stringify(name)}.`)
      const parameters = parametersOf(ctx, limits)
      const query = parseQuery(parameters, limits)
      // Whatever changes an answer is an event of the collection; the journal's id tells one history from another.
      if (isNotModified(ctx, `"${collection.position}-${journal.id}"`)) return
      const { text, total } = answer(collection.items(), query)
      ctx.set('X-Total-Count', String(total))
      const links = pageLinks(parameters, query.page, total)
      const path = collectionPath(name)
      const linksOf = (wanted: typeof links): string =>
        wanted.map(({ relation, search }) => `<${path}?${search}>; rel="${relation}"`).join(', ')
      // A link repeats the query: of a very long one there is room for the next page alone, or for none.
      const fitting = [links, links.filter(({ relation }) => relation === 'next')].map(linksOf)
      const link = fitting.find(({ length }) => length <= LINK_BYTES)
      if (link) ctx.set('Link', link)
      sendJson(ctx, text)
    },
    POST: async (ctx) => {
      const [collection] = apiSegments(ctx) as [string]
      const body = await readItem(ctx)
      await write(ctx, body, { type: 'CreateItem', collection, item: parseItem(body) })
    },
  })

  resource(router, '/api/:collection/:id', {
    GET: async (ctx) => {
      const { item } = await find(ctx)
      if (!isNotModified(ctx, item.tag)) sendJson(ctx, item.text)
    },
    PUT: async (ctx) => {
      const body = await readItem(ctx)
      await write(ctx, body, { type: 'ReplaceItem', ...target(ctx), item: parseItem(body) })
    },
    PATCH: async (ctx) => {
      const body = await readPatch(ctx)
      await write(ctx, body, { type: 'PatchItem', ...target(ctx), patch: parseAnyPatch(body) })
    },
    DELETE: (ctx) => write(ctx, undefined, { type: 'DeleteItem', ...target(ctx) }),
  })

  resource(router, '/api/:collection/:id/*rest', {
    GET: async (ctx) => {
      const { item, rest } = await find(ctx, 'UnknownParent')
      const value = valueAt(item.value, rest)
      if (value === undefined) throw new Refusal('NotFound', `The item has nothing at ${rest.join('/')}.`)
      const text = JSON.stringify(value)
      if (!isNotModified(ctx, tagOf(text))) sendJson(ctx, text)
    },
  })

  return router

  /** The position to read at; undefined for now. Says it in the answer, as what is read next belongs to it. */
  async function momentOf(ctx: Context): Promise<Position | undefined> {
    const at = ctx.querystring === '' ? undefined : await parseAsOf(parametersOf(ctx, limits), journal, now)
    ctx.set('Journal-Position', String(at ?? views.position))
    if (at !== undefined) ctx.set('Cache-Control', 'private, no-cache')
    return at
  }

  async function find(ctx: Context, otherwise: 'NotFound' | 'UnknownParent' = 'NotFound') {
    const [name, key, ...rest] = apiSegments(ctx) as [string, string, ...string[]]
    const at = await momentOf(ctx)
    const isThere = at === undefined ? views.find(name) !== undefined : past.existed(name, at)
    if (!isThere) throw new Refusal('UnknownParent', `There is no collection ${JSON.stringify(name)}.`)
    const item = at === undefined ? views.find(name)?.item(key) : await past.item(name, key, at)
    if (!item) throw new Refusal(otherwise, `There is no item ${JSON.stringify(key)} in "${name}".`)
    return { item, rest }
  }

  async function write(ctx: Context, body: Body | undefined, command: Command): Promise<void> {
    const outcome = await handler.handle(command, originOf(ctx, body?.bytes ?? new Uint8Array()))
    ctx.set('Journal-Position', String(outcome.position))
    sendOutcome(ctx, outcome)
  }
}

function target(ctx: Context) {
  const [collection, key] = apiSegments(ctx) as [string, string]
  const ifMatch = parseTags(ctx.headers['if-match'])
  const ifNoneMatch = parseTags(ctx.headers['if-none-match'])
  return { collection, key, ifMatch, ifNoneMatch }
}

function sendOutcome(ctx: Context, { event, item }: Outcome): void {
  if (!item) {
    ctx.status = 204
    return
  }
  ctx.set('ETag', item.tag)
  const created = event.type === 'ItemCreated'
  if (created) ctx.set('Location', itemPath(event.collection, item.key))
  if (wantsRepresentation(ctx)) {
    ctx.set('Preference-Applied', 'return=representation')
    sendJson(ctx, item.text, created ? 201 : 200)
  } else if (created) sendJson(ctx, JSON.stringify({ id: item.id }), 201)
  else ctx.status = 204
}
