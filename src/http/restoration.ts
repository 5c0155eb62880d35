import type { Context } from 'koa'
import type { CommandHandler } from '../commands/handler.ts'
import type { Restoration, RestoredCollection } from '../commands/restore.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { parseMoment } from '../projections/moment.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { type CollectionSnapshot, itemsOf } from '../query/collection-snapshot.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import type { Slices } from '../runtime/time-slices.ts'
import { sendJson } from './answers.ts'
import { JSON_TYPE, readBody } from './bodies.ts'
import { bodyOf } from './koa-body.ts'
import { type BuildProgress, checkBuilt } from './once-built.ts'
import { authorOf } from './requests.ts'

export interface RestorationOptions {
  readonly building: () => BuildProgress
  readonly handler: Pick<CommandHandler, 'restore'>
  readonly views: Views
  readonly past: Past
  readonly journal: Pick<Journal, 'head' | 'read' | 'timeMs'>
  readonly now: () => Date
}

/** Highest number of changes in the response; the journal has all of them. */
const CHANGES = 1000

/** POST to `/admin/restore`. */
export async function restore(ctx: Context, options: RestorationOptions, slices: Slices): Promise<void> {
  if (ctx.querystring !== '') throw new Refusal('Invalid', 'A restore takes no parameters; dryRun is in its body.')
  const source = { headers: ctx.headers, bytes: async () => bodyOf(ctx) }
  const { json } = await readBody(source, [JSON_TYPE], slices)
  const request = await parseRestore(json, options)
  checkBuilt(options.building())
  const snapshots: CollectionSnapshot[] = []
  try {
    const restoration = await restorationOf(request, options, snapshots)
    const { position, events } = await options.handler.restore(restoration, authorOf(ctx), request.dryRun)
    ctx.set('Journal-Position', String(position))
    const changes = events.slice(0, CHANGES).map(({ type, collection, ...event }) => ({
      type,
      collection,
      ...('id' in event && { id: event.id }),
    }))
    sendJson(ctx, JSON.stringify({ position, dryRun: request.dryRun, events: events.length, changes }))
  } finally {
    for (const snapshot of snapshots) snapshot.release()
  }
}

/** Adds the snapshots that must be released after use to `snapshots`. */
async function restorationOf(
  { to, collection, key }: RestoreRequest,
  { views, past }: RestorationOptions,
  snapshots: CollectionSnapshot[],
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
    const snapshot = past.existed(name, to) ? await past.collection(name, to) : undefined
    if (snapshot) snapshots.push(snapshot)
    collections.set(name, snapshot && { items: () => itemsOf(snapshot) })
  }
  return { type: 'collections', collections }
}

/** How messages name the types of the schema. */
const TYPES = { number: 'a number', string: 'text', boolean: 'true or false' } as const

interface RestoreSchema {
  readonly required: readonly string[]
  readonly properties: Readonly<
    Record<string, { readonly type: readonly (keyof typeof TYPES)[]; readonly description: string }>
  >
}

/** The body, for the check and for OpenAPI. */
export const RESTORE_SCHEMA = {
  type: 'object',
  required: ['to'],
  additionalProperties: false,
  properties: {
    to: { type: ['number', 'string'], description: 'A position, or an ISO 8601 instant.' },
    collection: { type: ['string'], description: 'Only this collection.' },
    id: { type: ['string', 'number'], description: 'Only this item of it.' },
    dryRun: { type: ['boolean'], description: 'Only report what would change.' },
  },
  examples: [{ to: 42, collection: 'sensors', dryRun: true }],
} as const satisfies RestoreSchema & JsonObject

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
  { journal, now }: Pick<RestorationOptions, 'journal' | 'now'>,
): Promise<RestoreRequest> {
  if (!isObject(json)) throw new Refusal('Unprocessable', 'The request must be an object, such as {"to": 42}.')
  const { to, collection, id, dryRun } = json
  const { required, properties }: RestoreSchema = RESTORE_SCHEMA
  const faults: Fault[] = []
  const check = (isRight: boolean, name: string, message: string): void => {
    if (!isRight) faults.push({ pointer: pointer([name]), message })
  }
  for (const [name, { type, description }] of Object.entries(properties)) {
    const isValid = json[name] === undefined ? !required.includes(name) : type.some((one) => one === typeof json[name])
    check(isValid, name, `must be ${type.map((one) => TYPES[one]).join(' or ')}: ${description}`)
  }
  check(id === undefined || collection !== undefined, 'id', 'needs the collection, too')
  for (const name in json) {
    if (faults.length >= FAULTS) break
    check(Object.hasOwn(properties, name), name, `is not known; there are ${Object.keys(properties).join(', ')}`)
  }
  if (faults.length > 0) throw new Refusal('Unprocessable', 'The request is not a valid restore request.', faults)
  return {
    to: await parseMoment(String(to), 'to', journal, now),
    dryRun: dryRun === true,
    ...(typeof collection === 'string' && { collection }),
    ...(id !== undefined && { key: String(id) }),
  }
}
