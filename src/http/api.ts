import { tagOf } from '../json/tag.ts'
import { parseFlag } from '../query/parameter.ts'
import { AS_OF } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiOptions } from './api-options.ts'
import { CollectionReads, RelatedCollections } from './collection-reads.ts'
import { createCollection, deleteItems, replaceAll } from './collections.ts'
import { type HttpRequest, type Reply, type Resource, refuseMethod, type Step } from './exchange.ts'
import { ItemReads, ItemWrites } from './items.ts'
import { COLLECTION, methodsOf, OBJECT } from './openapi/routes.ts'
import { apiSegments, COUNT, parametersOf, readPosition, refuseMisspelt } from './requests.ts'

/** `/api`: the collections and their items. */
export function apiResources(options: ApiOptions): readonly Resource[] {
  const related = new RelatedCollections(options)
  const collections = new CollectionReads(options, related)
  const reads = new ItemReads(options, related, collections)
  const writes = new ItemWrites(options)
  const isObject = ({ path }: Pick<HttpRequest, 'path'>): boolean => isObjectPath(path, options.views)
  const { isJsonServer } = options
  const listMethods = methodsOf('/api/{collection}', { isJsonServer }, COLLECTION)
  /** POST has a route as well: its 409 explains what objects support instead. */
  const objectMethods = methodsOf('/api/{collection}', { isJsonServer }, OBJECT)
  /** json-server has no such request. */
  const unlessJsonServer = (write: Step): Step => (isJsonServer ? refuseWhole : write)
  const create = unlessJsonServer((request, reply) => createCollection(request, reply, options.handler))
  const deleteAny = unlessJsonServer((request, reply) =>
    isObject(request) ? writes.deleteObject(request, reply) : deleteItems(request, reply, options),
  )
  const writeInside: Step = (request, reply) => writes.writeInside(request, reply, isObject(request))
  return [
    {
      path: '/api',
      routes: {
        GET: (request, reply) => collectionNames(request, reply, options),
        POST: unlessJsonServer((request, reply) => replaceAll(request, reply, options)),
      },
      methodsAt: () => methodsOf('/api', { isJsonServer }),
    },
    {
      path: '/api/:collection',
      routes: {
        GET: (request, reply) => collections.get(request, reply),
        POST: (request, reply) => writes.create(request, reply),
        // A single object is written like an item.
        PUT: (request, reply) => (isObject(request) ? writes.replace(request, reply) : create(request, reply)),
        PATCH: (request, reply) =>
          isObject(request) ? writes.patch(request, reply) : refuseMethod(request, reply, listMethods),
        DELETE: deleteAny,
      },
      methodsAt: (path) => (isObject({ path }) ? objectMethods : listMethods),
    },
    {
      path: '/api/:collection/:id',
      routes: {
        GET: (request, reply) => reads.get(request, reply),
        PUT: (request, reply) => (isObject(request) ? writeInside(request, reply) : writes.replace(request, reply)),
        PATCH: (request, reply) => (isObject(request) ? writeInside(request, reply) : writes.patch(request, reply)),
        DELETE: (request, reply) => writes.delete(request, reply),
      },
    },
    {
      path: '/api/:collection/:id/*rest',
      routes: {
        GET: (request, reply) => reads.getValue(request, reply),
        PUT: writeInside,
        PATCH: writeInside,
        ...(isJsonServer && { POST: (request, reply) => writes.createNested(request, reply) }),
      },
    },
  ]
}

function refuseWhole({ method, path }: HttpRequest): never {
  const why = 'json-server has no such request, and Api.Compatibility is json-server'
  throw new Refusal('NotFound', `There is no ${method} of ${path}: ${why}.`)
}

/** The names of all collections; with `count=true` the numbers of their items by name. */
async function collectionNames(request: HttpRequest, reply: Reply, options: ApiOptions): Promise<void> {
  const { views, past, limits } = options
  const parameters = parametersOf(request, limits)
  refuseMisspelt(parameters, [AS_OF, COUNT])
  const isCounted = parseFlag(parameters, COUNT)
  const at = await readPosition(parameters, reply, options)
  reply.position = at ?? views.position
  const names = at === undefined ? views.names() : await past.names(at, request)
  let text = JSON.stringify(names)
  if (isCounted) {
    const members: string[] = []
    for (const name of names) {
      // Without a pause for the present, so that all numbers are those of one position.
      const count = at === undefined ? presentSize(name, views) : await past.size(name, at, request)
      members.push(`${JSON.stringify(name)}:${count}`)
    }
    // An object of JavaScript has another order if names are numbers.
    text = `{${members.join(',')}}`
  }
  reply.tagged(request, { tag: tagOf(text), text })
}

/** The number of items; null for a single object. */
function presentSize(name: string, views: ApiOptions['views']): number | null {
  const collection = views.find(name)
  return collection && !collection.isObject ? collection.size : null
}

/** Whether the path is that of a single object, existing or deleted. */
function isObjectPath(path: string, views: ApiOptions['views']): boolean {
  try {
    return views.any(apiSegments(path)[0] ?? '')?.isObject === true
  } catch {
    // The address cannot be decoded.
    return false
  }
}
