import { setImmediate } from 'node:timers/promises'
import type { RestoreOutcome } from '../commands/handler.ts'
import {
  checkCollections,
  type Restoration,
  type RestoredCollection,
  type RestoredCollections,
} from '../commands/restore.ts'
import type { Position } from '../events/event.ts'
import type { Origin } from '../events/journal.ts'
import { DEFAULT_ITEM_VALUES } from '../json/parse.ts'
import { pointer } from '../json/paths.ts'
import { isObject, type JsonObject } from '../json/value.ts'
import { parseMoment } from '../projections/moment.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { type CollectionSnapshot, itemsOf } from '../query/collection-snapshot.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import type { ApiOptions } from './api-options.ts'
import { hasBody, readBody } from './bodies.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { JSON_TYPE } from './media-types.ts'
import { authorOf, parseUnchangedSince, refuseIgnoredHeaders } from './requests.ts'

export type RestorationOptions = Pick<ApiOptions, 'handler' | 'views' | 'past' | 'journal' | 'now' | 'turns'>

/** Highest number of changes in the response; the journal has all of them. */
const CHANGES = 1000

/** POST to `/admin/restore`. */
export async function restore(request: HttpRequest, reply: Reply, options: RestorationOptions): Promise<void> {
  refuseIgnoredHeaders(request, true)
  const ifUnchangedSince = parseUnchangedSince(request.headers)
  if (request.querystring !== '') throw new Refusal('Invalid', 'A restore takes no parameters; dryRun is in its body.')
  const wanted = await parseRestore(await readRequest(request, RESTORE_SCHEMA, options), options)
  const snapshots: CollectionSnapshot[] = []
  try {
    const past = await restorationOf(wanted, options, snapshots)
    const outcome = await options.handler.restore({ ...past, ifUnchangedSince }, authorOf(request), wanted.dryRun)
    replyRestored(reply, outcome, wanted.dryRun)
  } finally {
    for (const snapshot of snapshots) snapshot.release()
  }
}

function replyRestored(reply: Reply, { position, events }: RestoreOutcome, dryRun: boolean): void {
  reply.position = position
  const changes = events.slice(0, CHANGES).map(({ type, collection, ...event }) => ({
    type,
    collection,
    ...('id' in event && { id: event.id }),
  }))
  reply.json(JSON.stringify({ position, dryRun, events: events.length, changes }))
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
  const names = collection === undefined ? await namesAt(to, views, past) : [collection]
  return { type: 'collections', collections: await pastCollections(names, to, past, snapshots) }
}

/** Names looked up in one iteration of the event loop. */
const NAMES_AT_ONCE = 100

/** The collections that existed right after an event, or exist now. */
async function namesAt(to: Position, views: Views, past: Past): Promise<readonly string[]> {
  const names: string[] = []
  for (const [index, name] of views.namesEver().entries()) {
    if (index % NAMES_AT_ONCE === NAMES_AT_ONCE - 1) await setImmediate()
    if (views.find(name) || past.existed(name, to)) names.push(name)
  }
  return names
}

/** Collections right after an event. Adds the snapshots that must be released after use to `snapshots`. */
export async function pastCollections(
  names: readonly string[],
  to: Position,
  past: Past,
  snapshots: CollectionSnapshot[],
): Promise<RestoredCollections> {
  checkCollections(names.length)
  const collections = new Map<string, RestoredCollection | undefined>()
  for (const name of names) {
    const snapshot = past.existed(name, to) ? await past.collection(name, to) : undefined
    if (snapshot) snapshots.push(snapshot)
    const memoryBytes = snapshot?.memoryBytes ?? 0
    collections.set(name, snapshot && { items: () => itemsOf(snapshot), memoryBytes })
  }
  return collections
}

/** How messages name the types of the schema. */
const TYPES = { number: 'a number', string: 'text', boolean: 'true or false' } as const

interface RequestSchema {
  readonly required: readonly string[]
  readonly properties: Readonly<
    Record<string, { readonly type: readonly (keyof typeof TYPES)[]; readonly description: string }>
  >
  readonly examples: readonly JsonObject[]
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
} as const satisfies RequestSchema & JsonObject

/** Highest number of reported mistakes. */
const FAULTS = 20

interface RestoreRequest {
  readonly to: Position
  readonly collection?: string
  readonly key?: string
  readonly dryRun: boolean
}

async function parseRestore(
  { to, collection, id, dryRun }: JsonObject,
  options: RestorationOptions,
): Promise<RestoreRequest> {
  if (id !== undefined && collection === undefined) {
    throw invalidRequest([{ pointer: '/id', message: 'needs the collection, too' }])
  }
  return {
    to: await parseMoment(String(to), 'to', options),
    dryRun: dryRun === true,
    ...(typeof collection === 'string' && { collection }),
    ...(id !== undefined && { key: String(id) }),
  }
}

async function readRequest(
  request: HttpRequest,
  { required, properties, examples }: RequestSchema,
  { turns }: Pick<ApiOptions, 'turns'>,
): Promise<JsonObject> {
  const { json } = await readBody(request, [JSON_TYPE], { turns, limits: { itemValues: DEFAULT_ITEM_VALUES } })
  if (!isObject(json)) {
    throw new Refusal('Unprocessable', `The request must be an object, such as ${JSON.stringify(examples[0])}.`)
  }
  const faults: Fault[] = []
  const check = (isRight: boolean, name: string, message: string): void => {
    if (!isRight) faults.push({ pointer: pointer([name]), message })
  }
  for (const [name, { type, description }] of Object.entries(properties)) {
    const isValid = json[name] === undefined ? !required.includes(name) : type.some((one) => one === typeof json[name])
    check(isValid, name, `must be ${type.map((one) => TYPES[one]).join(' or ')}: ${description}`)
  }
  for (const name in json) {
    if (faults.length >= FAULTS) break
    check(Object.hasOwn(properties, name), name, `is not known; expected: ${Object.keys(properties).join(', ')}`)
  }
  if (faults.length > 0) throw invalidRequest(faults)
  return json
}

function invalidRequest(faults: readonly Fault[]): Refusal {
  return new Refusal('Unprocessable', 'The request is not valid.', faults)
}

/** Returns everything to the first data. */
export type Reset = (origin: Origin, isDryRun: boolean) => Promise<RestoreOutcome>

/** The body, for the check and for OpenAPI. It may be missing. */
export const RESET_SCHEMA = {
  type: 'object',
  required: [],
  additionalProperties: false,
  properties: { dryRun: RESTORE_SCHEMA.properties.dryRun },
  examples: [{ dryRun: true }],
} as const satisfies JsonObject

/** POST to `/admin/reset`. */
export async function resetAll(
  request: HttpRequest,
  reply: Reply,
  reset: Reset,
  options: Pick<ApiOptions, 'turns'>,
): Promise<void> {
  refuseIgnoredHeaders(request)
  if (request.querystring !== '') throw new Refusal('Invalid', 'A reset takes no parameters; dryRun is in its body.')
  const { dryRun } = hasBody(request.headers) ? await readRequest(request, RESET_SCHEMA, options) : {}
  const isDryRun = dryRun === true
  replyRestored(reply, await reset(authorOf(request), isDryRun), isDryRun)
}
