import type { Scheme } from '../../access/access.ts'
import type { Position } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'
import { collectionPath } from '../../projections/address.ts'
import type { Views } from '../../projections/views.ts'
import { type Turn, Turns } from '../../runtime/turns.ts'
import { changesNoData } from '../exchange.ts'
import { requirements, securedComponents, securedPaths, tokenPaths } from './access.ts'
import { itemPaths, namesPath, objectPaths, valuePath } from './item-paths.ts'
import { asJsonServer, withResultObjects } from './json-server.ts'
import { parameters } from './parameters.ts'
import { headers, ref, usedComponents } from './references.ts'
import { responses } from './responses.ts'
import { schemaOf } from './schema-of.ts'
import { itemSchemasWith, schemas, withId } from './schemas.ts'
import { resetPath, servicePaths } from './service-paths.ts'

type Collection = NonNullable<ReturnType<Views['find']>>

export interface OpenApiOptions {
  readonly version: string
  readonly views: Pick<Views, 'names' | 'find' | 'position'>
  /** The authentication schemes; none if authentication is off. */
  readonly schemes: readonly Scheme[]
  readonly isReadOnly?: boolean
  /** Whether `POST /admin/reset` is offered. */
  readonly hasReset?: boolean
  /** Responses are those of json-server where they differ. */
  readonly isJsonServer?: boolean
  /** As `Api.UseResultObject` says. */
  readonly useResultObject?: boolean
  /** As `DataStore.IdField` says. */
  readonly idField?: string
}

/** Highest number of collections with paths of their own, which the page shows at once, and length of their names. */
const COLLECTIONS = 50
const NAME = 256
/** Items of each collection that are read for its schema, and their total length. */
const ITEMS = 20
const CHARACTERS = 64 * 1024
/** Beyond this total length no further items are read. */
const READ_CHARACTERS = 1024 * 1024

const DESCRIPTION = `The collections and single objects of a JSON file, and every change that was ever made to them.

Every change is an event, and every event has a *position* in the journal: 1, 2, 3… without gaps. Every answer
under \`/api\` says in \`Journal-Position\` which one it reflects. A method that a resource does not have is a 405
that names in \`Allow\` those that it has. Every error is a problem document (RFC 9457).

Clients that connect by Socket.IO, or by WebSocket to \`/ws\`, are notified of every event.`

const TAGS = [
  {
    name: 'Any collection',
    description: 'The same paths for a collection of any name, also for one that does not exist yet.',
  },
  { name: 'Journal', description: 'The events, oldest first.' },
  { name: 'Service', description: 'How the server is, its data file, its credentials, and this document.' },
]

const INFO = { title: 'Recollect', description: DESCRIPTION, license: { name: 'MIT', identifier: 'MIT' } }

/** Relative to the document, so that it is correct below any path. */
const SERVERS: JsonObject[] = [{ url: '.' }]

/** The OpenAPI document: the routes, and the collections with the fields of their first items. */
export class OpenApi {
  readonly #options: OpenApiOptions
  readonly #turns = new Turns()
  #made: { readonly position: Position; readonly text: Buffer } | undefined
  #making: Promise<void> | undefined

  constructor(options: OpenApiOptions) {
    this.#options = options
  }

  /**
   * The document as JSON. It is cached until the next event, and created in turns. Concurrent requests share one
   * creation, or wait for the next one if an event came in between.
   */
  async text(): Promise<Buffer> {
    const asked = this.#options.views.position
    for (;;) {
      const made = this.#made
      if (made && made.position >= asked) return made.text
      this.#making ??= this.#make().finally(() => {
        this.#making = undefined
      })
      await this.#making
    }
  }

  async #make(): Promise<void> {
    const { position } = this.#options.views
    const text = await this.#turns.run((turn) => describing(this.#options, turn))
    this.#made = { position, text: Buffer.from(text) }
  }
}

/** Creates the document in OpenAPI 3.1. */
async function describing(options: OpenApiOptions, turn: Turn): Promise<string> {
  const { version, views, schemes, isReadOnly = false, isJsonServer = false } = options
  const { hasReset = false, useResultObject = false, idField = 'id' } = options
  const served = (all: JsonObject): JsonObject => {
    const compatible = isJsonServer ? asJsonServer(all) : all
    const paths = useResultObject ? withResultObjects(compatible) : compatible
    return securedPaths(isReadOnly ? readable(paths) : paths, schemes)
  }
  const names = new ComponentNames()
  const tags: JsonObject[] = []
  const paths: string[] = []
  const itemSchemas: string[] = []
  for (const name of views.names().slice(0, COLLECTIONS)) {
    if (name.length > NAME) continue
    const collection = await describe(name, names.nameOf(name), views, idField, turn)
    tags.push(collection.tag)
    paths.push(members(served(collection.paths)))
    itemSchemas.push(members(collection.schemas))
    if (turn.isOver) await turn.next()
  }
  paths.push(members(served(GENERIC)))
  if (hasReset) paths.push(members(served(resetPath)))
  // A replay server cannot be written to, but issues tokens.
  if (schemes.includes('token')) paths.push(members(securedPaths(tokenPaths, schemes)))
  if (turn.isOver) await turn.next()
  const shared = { schemas: { ...schemas, ...itemSchemasWith(idField) }, headers, parameters }
  const { schemas: general = {}, ...components } = usedComponents(
    { ...shared, ...securedComponents({ responses }, schemes) },
    [...paths, ...itemSchemas],
  )
  itemSchemas.push(members(general))
  return `{${[
    members({ openapi: '3.1.0', info: { ...INFO, version }, servers: SERVERS, security: requirements(schemes) }),
    members({ tags: [...tags, ...TAGS] }),
    `"paths":{${joined(paths)}}`,
    `"components":{${joined([`"schemas":{${joined(itemSchemas)}}`, members(components)])}}`,
  ].join(',')}}`
}

const GENERIC: JsonObject = {
  '/api': namesPath,
  ...itemPaths({
    path: '/api/{collection}',
    tag: 'Any collection',
    name: '',
    item: ref('schemas', 'Item'),
    sent: ref('schemas', 'Item'),
    parameters: ['collection'],
    isAny: true,
  }),
  '/api/{collection}/{id}/{rest}': valuePath,
  ...servicePaths,
}

/** The members of an object as JSON, without braces. */
function members(object: JsonObject): string {
  return JSON.stringify(object).slice(1, -1)
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(',')
}

/** The paths with read operations only. */
function readable(paths: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).flatMap(([path, item]) => {
      if (changesNoData(path)) return [[path, item]]
      const { get, head, options } = item as JsonObject
      return get === undefined ? [] : [[path, { get, ...(head && { head }), ...(options && { options }) }]]
    }),
  )
}

/** The tag is the path, which no other tag can equal. */
async function describe(collection: string, name: string, views: OpenApiOptions['views'], idField: string, turn: Turn) {
  const path = collectionPath(collection)
  const found = views.find(collection)
  const sample = await sampleOf(found, turn)
  const item = ref('schemas', `Item_${name}`)
  const described = { path, tag: path, name: `_${name}`, item, parameters: [] }
  if (found?.isObject) {
    return {
      tag: { name: path, description: 'A single object.' },
      schemas: { [`Item_${name}`]: sample },
      paths: objectPaths(described),
    }
  }
  return {
    tag: { name: path, description: 'A collection and its items.' },
    schemas: { [`NewItem_${name}`]: sample, [`Item_${name}`]: withId(ref('schemas', `NewItem_${name}`), idField) },
    paths: itemPaths({ ...described, sent: ref('schemas', `NewItem_${name}`) }),
  }
}

/** The schema of the first items. */
async function sampleOf(found: Collection | undefined, turn: Turn): Promise<JsonObject> {
  const values: JsonObject[] = []
  let left = CHARACTERS
  let seen = 0
  let read = 0
  for (const item of found?.items() ?? []) {
    if (seen++ === ITEMS || read > READ_CHARACTERS) break
    read += item.text.length
    if (turn.isOver) await turn.next()
    if (item.text.length > left) continue
    left -= item.text.length
    values.push(item.value)
  }
  if (values.length === 0) return ref('schemas', 'Item')
  const description = found?.isObject ? 'The current fields.' : 'The fields of the first items; others may differ.'
  return { description, ...schemaOf(values) }
}

/**
 * Maps collections to identifiers for operation ids and components. Names that are equal without case and underscores
 * get a number, as generators drop both.
 */
class ComponentNames {
  readonly #taken = new Set([''])

  nameOf(collection: string): string {
    const plain = collection
      .normalize('NFKD')
      .replace(/\p{M}/gu, '')
      .replace(/[^\p{ASCII}]/gu, (character) => `_u${character.codePointAt(0)?.toString(16)}`)
      .replace(/[^A-Za-z0-9]+/g, '_')
    let name = plain
    for (let count = 2; this.#taken.has(withoutCase(name)); count++) name = `${plain}_${count}`
    this.#taken.add(withoutCase(name))
    return name
  }
}

function withoutCase(name: string): string {
  return name.replaceAll('_', '').toLowerCase()
}
