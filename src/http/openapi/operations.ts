import { isSafe } from '../../access/roles.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Method } from '../exchange.ts'
import type { ParameterName } from './parameters.ts'
import { type HeaderName, headerRefs, parameterRefs, ref } from './references.ts'
import { type ProblemStatus, problems } from './responses.ts'

export interface Response {
  readonly description: string
  readonly headers?: readonly HeaderName[]
  readonly content?: JsonObject
}

export interface Operation {
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly ParameterName[]
  readonly requestBody?: JsonObject
  readonly responses: Readonly<Record<number, Response>>
  readonly problems?: readonly ProblemStatus[]
}

export interface Resource {
  /** The tag of the operations. */
  readonly tag: string
  /** The name of the resource in operation ids. */
  readonly name: string
  /** Parameters of the path. */
  readonly parameters?: readonly ParameterName[]
  readonly operations: Readonly<Partial<Record<Method, Operation>>>
}

/** A path item with what all resources share: HEAD beside GET, OPTIONS, and common response headers. */
export function pathItem(path: string, { tag, name, parameters = [], operations }: Resource): JsonObject {
  const common = path === '/api' || path.startsWith('/api/') ? SERVED_UNDER_API : SERVED
  const { GET } = operations
  const all: Readonly<Record<string, Operation>> = {
    ...operations,
    ...(GET && { HEAD: headOf(GET) }),
    OPTIONS: {
      summary: 'What is allowed here',
      responses: {
        200: {
          description: 'The methods, whether or not the resource exists.',
          headers: operations.PATCH ? ['Allow', 'Accept-Patch'] : ['Allow'],
        },
      },
    },
  }
  return Object.fromEntries(
    Object.entries(all).map(([method, operation]) => [
      method.toLowerCase(),
      {
        tags: [tag],
        operationId: `${method.toLowerCase()}${name}`,
        summary: operation.summary,
        ...(operation.description && { description: operation.description }),
        parameters: parameterRefs([...parameters, ...(operation.parameters ?? []), 'X-Request-Id']),
        ...(operation.requestBody && { requestBody: operation.requestBody }),
        responses: responsesOf(method, operation, common),
      },
    ]),
  )
}

const SERVED: readonly HeaderName[] = ['X-Request-Id']
const SERVED_UNDER_API: readonly HeaderName[] = ['Journal-Position', 'X-Request-Id']

function headOf({ summary, parameters = [], responses, problems = [] }: Operation): Operation {
  return { summary: `${summary}: the headers alone`, parameters, responses, problems }
}

function responsesOf(
  method: string,
  { responses, problems: refused = [] }: Operation,
  common: readonly HeaderName[],
): JsonObject {
  return {
    ...Object.fromEntries(
      Object.entries(responses).map(([status, { description, headers = [], content }]) => [
        status,
        { description, headers: headerRefs([...headers, ...common]), ...(content && method !== 'HEAD' && { content }) },
      ]),
    ),
    ...problems(...refused, ...(isSafe(method) ? [] : [403 as const])),
    default: ref('responses', 'Problem'),
  }
}
