import { tagOf } from '../json/tag.ts'
import { AS_OF } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiOptions } from './api-options.ts'
import { CollectionReads, RelatedCollections } from './collection-reads.ts'
import { createCollection, deleteItems, replaceAll } from './collections.ts'
import { type HttpRequest, type Resource, refuseMethod, type Step } from './exchange.ts'
import { ItemReads, ItemWrites } from './items.ts'
import { COLLECTION, methodsOf, OBJECT } from './openapi/routes.ts'
import { apiSegments, parametersOf, readPosition, refuseMisspelt } from './requests.ts'

/** POST has a route as well: its 409 explains what objects support instead. */
const OBJECT_METHODS = methodsOf('/api/{collection}', {}, OBJECT)

/** `/api`: the collections and their items. */
export function apiResources(options: ApiOptions): readonly Resource[] {
  const related = new RelatedCollections(options)
  const collections = new CollectionReads(options, related)
  const reads = new ItemReads(options, related, collections)
  const writes = new ItemWrites(options)
  const isObject = ({ path }: Pick<HttpRequest, 'path'>): boolean => isObjectPath(path, options.views)
  const { isJsonServer } = options
  const listMethods = methodsOf('/api/{collection}', { isJsonServer }, COLLECTION)
  /** As json-server, which has no such request. */
  const ofLists = (write: Step): Step => (isJsonServer ? refuseWholeList : write)
  const create = ofLists((request, reply) => createCollection(request, reply, options.handler))
  const deleteAny = ofLists((request, reply) => deleteItems(request, reply, options))
  const writeInside: Step = (request, reply) => writes.writeInside(request, reply, isObject(request))
  return [
    { path: '/api', routes: everythingSteps(options) },
    {
      path: '/api/:collection',
      routes: {
        GET: (request, reply) => collections.get(request, reply),
        POST: (request, reply) => writes.create(request, reply),
        // A single object is written like an item.
        PUT: (request, reply) => (isObject(request) ? writes.replace(request, reply) : create(request, reply)),
        PATCH: (request, reply) =>
          isObject(request) ? writes.patch(request, reply) : refuseMethod(request, reply, listMethods),
        DELETE: (request, reply) =>
          isObject(request) ? writes.deleteObject(request, reply) : deleteAny(request, reply),
      },
      methodsAt: (path) => (isObject({ path }) ? OBJECT_METHODS : listMethods),
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

function refuseWholeList({ method, path }: HttpRequest): never {
  const why = 'json-server has no such request. Without Api.Compatibility it writes the whole collection'
  throw new Refusal('NotFound', `There is no ${method} of the list ${path}: ${why}.`)
}

/** The names of all collections, and the replacement of all of them. */
function everythingSteps(options: ApiOptions): Resource['routes'] {
  const { views, past, limits } = options
  return {
    GET: async (request, reply) => {
      const parameters = parametersOf(request, limits)
      refuseMisspelt(parameters, [AS_OF])
      const at = await readPosition(parameters, reply, options)
      reply.position = at ?? views.position
      const names = JSON.stringify(at === undefined ? views.names() : await past.names(at, request))
      reply.tagged(request, { tag: tagOf(names), text: names })
    },
    POST: (request, reply) => replaceAll(request, reply, options),
  }
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
