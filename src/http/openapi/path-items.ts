import { isSafe, neededRole } from '../../access/roles.ts'
import type { JsonObject } from '../../json/value.ts'
import { JSON_TYPE } from '../media-types.ts'
import { headerRefs } from './parameters.ts'
import { problemRefs } from './problems.ts'
import { json, ref } from './references.ts'
import { isOffered, methodsOf, type Offer, type Operation, type Route } from './routes.ts'
import { envelope, resultObject } from './schemas.ts'

/** The tag of the operations, and what their ids end with. */
export interface Names {
  readonly tag: string
  readonly suffix: string
}

/** The path of a route with its operations, HEAD beside GET, and OPTIONS; nothing if the server offers no method there. */
export function pathItem(path: string, route: Route, { tag, suffix }: Names, offer: Offer): JsonObject {
  const methods = methodsOf(path, offer, route)
  if (methods.length === 0) return {}
  const operations: Readonly<Record<string, Operation>> = {
    ...Object.fromEntries(methods.map((method) => [method, route[method] as Operation])),
    ...(route.GET && { HEAD: headOf(route.GET) }),
    OPTIONS: {
      summary: 'What is allowed here',
      responses: {
        200: {
          text: 'The methods, whether or not the resource exists.',
          headers: methods.includes('PATCH') ? ['Allow', 'Accept-Patch'] : ['Allow'],
        },
      },
    },
  }
  const item = Object.entries(operations).map(([method, operation]) => {
    const ids = { tags: [tag], operationId: `${method.toLowerCase()}${operation.name ?? route.name}${suffix}` }
    return [method.toLowerCase(), { ...ids, ...described(path, method, operation, offer) }]
  })
  return { [path]: Object.fromEntries(item) }
}

function headOf({ description: _, ...operation }: Operation): Operation {
  return { ...operation, summary: `${operation.summary}: the headers alone` }
}

/** With what all operations share: the parameters of the path, the role, and the problems of authorization. */
function described(path: string, method: string, operation: Operation, offer: Offer): JsonObject {
  const { summary, parameters = [], body, hasOptionalBody, problems = [] } = operation
  const ofPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as string)
  const names = [...ofPath, ...parameters, 'X-Request-Id']
  const role = offer.hasAuthentication ? neededRole(method, path) : undefined
  const description = [operation.description, role && `Needs the role \`${role}\`.`].filter(Boolean).join('\n\n')
  const refused = [...problems, ...(isSafe(method) ? [] : [403]), ...(role ? [401, 403, 429] : [])]
  return {
    summary,
    ...(description !== '' && { description }),
    parameters: names.map((name) => ref(name, 'parameters')),
    ...(body && { requestBody: { required: !hasOptionalBody, content: body } }),
    responses: {
      ...responsesOf(path, method, operation, offer),
      ...problemRefs(refused),
      default: ref('Problem', 'responses'),
    },
    ...(offer.hasAuthentication && !role && { security: [] }),
  }
}

function responsesOf(path: string, method: string, { responses }: Operation, offer: Offer): JsonObject {
  const common = isUnderApi(path) ? (['Journal-Position', 'X-Request-Id'] as const) : (['X-Request-Id'] as const)
  const offered = Object.entries(responses).filter(([, response]) => isOffered(response, offer))
  return Object.fromEntries(
    offered.map(([status, { text, headers = [], body, isPage }]) => {
      const hasContent = body !== undefined && method !== 'HEAD'
      const content = hasContent && { content: isPage ? inForms(body, offer) : body }
      return [status, { description: text, headers: headerRefs([...headers, ...common]), ...content }]
    }),
  )
}

function isUnderApi(path: string): boolean {
  return path === '/api' || path.startsWith('/api/')
}

/** A page as JSON is a list, or has the form of json-server 1.0, or of `Api.UseResultObject`. */
function inForms(body: JsonObject, { isJsonServer, useResultObject }: Offer): JsonObject {
  let { schema } = body[JSON_TYPE] as { readonly schema: JsonObject }
  if (isJsonServer) schema = { anyOf: [schema, envelope(schema)] }
  if (useResultObject) schema = { anyOf: [resultObject(schema), schema] }
  return { ...body, ...json(schema) }
}
