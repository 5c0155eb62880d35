import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Scheme } from '../../access/access.ts'
import type { Position } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'
import { collectionPath } from '../../projections/address.ts'
import type { Views } from '../../projections/views.ts'
import { type Turn, Turns } from '../../runtime/turns.ts'
import { headers, parameters } from './parameters.ts'
import { pathItem } from './path-items.ts'
import { responses } from './problems.ts'
import { ref } from './references.ts'
import { COLLECTION, COLLECTION_ITEM, OBJECT, type Offer, ROUTES } from './routes.ts'
import { schemaOf } from './schema-of.ts'
import { itemSchemasWith, schemas, withId } from './schemas.ts'

type Collection = NonNullable<ReturnType<Views['find']>>

export interface OpenApiOptions extends Omit<Offer, 'hasTokens' | 'hasAuthentication'> {
  readonly version: string
  readonly views: Pick<Views, 'names' | 'find' | 'position'>
  /** The authentication schemes; none if authentication is off. */
  readonly schemes: readonly Scheme[]
  /** As `DataStore.IdField` says. */
  readonly idField?: string
}

/** The document as JSON, plain and compressed. */
export interface Document {
  readonly text: Buffer
  readonly gzipped: Buffer
}

const gzipped = promisify(gzip)

/** The OpenAPI document: the routes, and the collections with the fields of their first items. */
export class OpenApi {
  readonly #options: OpenApiOptions
  readonly #turns = new Turns()
  /** The last document, and the one that is being created. */
  #made: (Document & { readonly position: Position }) | undefined
  #making: Promise<void> | undefined

  constructor(options: OpenApiOptions) {
    this.#options = options
  }

  /**
   * The document. It is cached until the next event, and created in turns. Concurrent requests share one creation, or
   * wait for the next one if an event came in between.
   */
  async document(): Promise<Document> {
    const asked = this.#options.views.position
    for (;;) {
      const made = this.#made
      if (made && made.position >= asked) return made
      this.#making ??= this.#make().finally(() => {
        this.#making = undefined
      })
      await this.#making
    }
  }

  async #make(): Promise<void> {
    const { position } = this.#options.views
    const text = Buffer.from(await this.#turns.run((turn) => documentText(this.#options, turn)))
    this.#made = { position, text, gzipped: await gzipped(text) }
  }
}

/** Highest number of collections with paths of their own, which the page shows at once, and length of their names. */
const SHOWN_COLLECTIONS = 50
const NAME_CHARACTERS = 256
/** Items of each collection that are read for its schema, and their total length. */
const SAMPLE_ITEMS = 20
const SAMPLE_CHARACTERS = 64 * 1024
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
    paths: /^\/api/,
  },
  { name: 'Journal', description: 'The events, oldest first.', paths: /^\/events/ },
  {
    name: 'Service',
    description: 'How the server is, its data file, its credentials, and this document.',
    paths: /^/,
  },
]

const INFO = { title: 'Recollect', description: DESCRIPTION, license: { name: 'MIT', identifier: 'MIT' } }

/** Relative to the document, so that it is correct below any path. */
const SERVERS: JsonObject[] = [{ url: '.' }]

type Components = Readonly<Record<string, JsonObject>>

/** The ways to send the credentials of each scheme. */
const SECURITY: Readonly<Record<Scheme, Components>> = {
  token: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
  basic: { basic: { type: 'http', scheme: 'basic' } },
  apikey: {
    apikey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' },
    apikeyAsBearer: { type: 'http', scheme: 'bearer', description: 'An API key in the Authorization header.' },
  },
}

/** Creates the document in OpenAPI 3.1. */
async function documentText(options: OpenApiOptions, turn: Turn): Promise<string> {
  const { version, views, schemes, idField = 'id' } = options
  const offer = { ...options, hasTokens: schemes.includes('token'), hasAuthentication: schemes.length > 0 }
  const names = new ComponentNames()
  const tags: JsonObject[] = []
  const paths: string[] = []
  const itemSchemas: string[] = []
  for (const name of views.names().slice(0, SHOWN_COLLECTIONS)) {
    if (name.length > NAME_CHARACTERS) continue
    const collection = await describeCollection(name, names.identifierFor(name), options, offer, turn)
    tags.push(collection.tag)
    paths.push(collection.paths)
    itemSchemas.push(membersOf(collection.schemas))
    if (turn.isOver) await turn.next()
  }
  for (const [path, route] of Object.entries(ROUTES)) {
    const tag = TAGS.find((one) => one.paths.test(path))?.name as string
    paths.push(membersOf(pathItem(path, route, { tag, suffix: '' }, offer)).replaceAll(SENT, READ))
  }
  if (turn.isOver) await turn.next()
  const securitySchemes: Components = Object.assign({}, ...schemes.map((scheme) => SECURITY[scheme]))
  const { schemas: general = {}, ...components } = usedComponents(
    { schemas: { ...schemas, ...itemSchemasWith(idField) }, headers, parameters, responses },
    [...paths, ...itemSchemas],
  )
  itemSchemas.push(membersOf(general))
  const security = Object.keys(securitySchemes).map((name) => ({ [name]: [] }))
  const rest = { ...components, ...(schemes.length > 0 && { securitySchemes }) }
  return `{${[
    membersOf({ openapi: '3.1.0', info: { ...INFO, version }, servers: SERVERS, security }),
    membersOf({ tags: [...tags, ...TAGS.map(({ name, description }) => ({ name, description }))] }),
    `"paths":{${joined(paths)}}`,
    `"components":{${joined([`"schemas":{${joined(itemSchemas)}}`, membersOf(rest)])}}`,
  ].join(',')}}`
}

/** The members of an object as JSON, without braces. */
function membersOf(object: JsonObject): string {
  return JSON.stringify(object).slice(1, -1)
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(',')
}

/** How paths refer to the schemas of items, read and sent. */
const READ = '/schemas/Item"'
const SENT = '/schemas/NewItem"'

/** The paths and schemas of a collection. The tag is the path, which no other tag can equal. */
async function describeCollection(collection: string, name: string, options: OpenApiOptions, offer: Offer, turn: Turn) {
  const { views, idField = 'id' } = options
  const path = collectionPath(collection)
  const found = views.find(collection)
  const sample = await sampleOf(found, turn)
  const [item, sent] = found?.isObject ? [`Item_${name}`, `Item_${name}`] : [`Item_${name}`, `NewItem_${name}`]
  const at = { tag: path, suffix: `_${name}` }
  const paths = found?.isObject
    ? pathItem(path, OBJECT, at, offer)
    : { ...pathItem(path, COLLECTION, at, offer), ...pathItem(`${path}/{id}`, COLLECTION_ITEM, at, offer) }
  return {
    tag: { name: path, description: found?.isObject ? 'A single object.' : 'A collection and its items.' },
    schemas: { [sent]: sample, ...(sent !== item && { [item]: withId(ref(sent), idField) }) },
    paths: membersOf(paths).replaceAll(READ, `/schemas/${item}"`).replaceAll(SENT, `/schemas/${sent}"`),
  }
}

/** The schema of the first items. */
async function sampleOf(found: Collection | undefined, turn: Turn): Promise<JsonObject> {
  const values: JsonObject[] = []
  let left = SAMPLE_CHARACTERS
  let seen = 0
  let read = 0
  for (const item of found?.items() ?? []) {
    if (seen++ === SAMPLE_ITEMS || read > READ_CHARACTERS) break
    read += item.text.length
    if (turn.isOver) await turn.next()
    if (item.text.length > left) continue
    left -= item.text.length
    values.push(item.value)
  }
  if (values.length === 0) return ref('Item')
  const description = found?.isObject ? 'The current fields.' : 'The fields of the first items; others may differ.'
  return { description, ...schemaOf(values) }
}

/**
 * Maps collections to identifiers for operation ids and components. Names that are equal without case and underscores
 * get a number, as generators drop both.
 */
class ComponentNames {
  readonly #taken = new Set([''])

  identifierFor(collection: string): string {
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

const REFERENCES = /"\$ref":"#\/components\/(\w+)\/([^"]+)"/g

/** The components that the texts refer to, directly or through others. */
function usedComponents(
  components: Readonly<Record<string, Components>>,
  texts: readonly string[],
): Record<string, Components> {
  const used = new Set<JsonObject | undefined>([undefined])
  const read = (text: string): void => {
    for (const [, kind, name] of text.matchAll(REFERENCES) as Iterable<readonly [string, string, string]>) {
      const component = components[kind]?.[name]
      if (used.has(component)) continue
      used.add(component)
      read(JSON.stringify(component))
    }
  }
  for (const text of texts) read(text)
  return Object.fromEntries(
    Object.entries(components).map(([kind, named]) => [
      kind,
      Object.fromEntries(Object.entries(named).filter(([, one]) => used.has(one))),
    ]),
  )
}
