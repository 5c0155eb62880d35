import type { OutgoingHttpHeaders } from 'node:http'
import { DECODERS } from '../../src/http/bodies.ts'
import { type ParameterName, parameters } from '../../src/http/openapi/parameters.ts'
import { METHODS, type Operation, type Response, ROUTES } from '../../src/http/openapi/routes.ts'
import { OPERATORS } from '../../src/query/filter.ts'
import { JSON_SERVER_PARAMETERS } from '../../src/query/json-server.ts'
import { PAGING } from '../../src/query/paging.ts'
import type { ClientMessages } from '../../src/sockets/protocol.ts'
import { MEMBERS } from '../../src/sockets/subscribe-request.ts'
import type { ProbedServer } from '../support/probe.ts'

/** A server whose costs are measured. */
export interface CostServer extends ProbedServer {
  readonly coverage: Coverage
}

const MESSAGES: Readonly<Record<keyof ClientMessages, true>> = { subscribe: true, unsubscribe: true }

/** The plain WebSocket, beside Socket.IO. */
export const PLAIN_SOCKET = 'a plain WebSocket'

/** The routes, parameters, media types, encodings and messages that the server granted; refusals do not count. */
export class Coverage {
  readonly #covered = new Set<string>()

  noteRequest(method: string, target: string, headers: OutgoingHttpHeaders, status: number): void {
    if (status >= 400) return
    const [path = '', search = ''] = target.split('?')
    const route = routeOf(path)
    if (route === undefined) return
    const at = `${method} ${route}`
    this.#covered.add(at)
    for (const name of new URLSearchParams(search).keys()) {
      this.#covered.add(`${at} ?${name}`)
      const operator = OPERATORS.find((one) => name.endsWith(`_${one}`))
      if (operator === undefined) continue
      this.#covered.add(`${at} ?filters`)
      this.#covered.add(`the operator ${operator}`)
    }
    for (const [name, value] of Object.entries(headers)) {
      this.#covered.add(`the header ${name}`)
      if (name === 'Content-Type') this.#covered.add(`${at} of ${String(value).split(';')[0]}`)
      if (name === 'Content-Encoding') this.#covered.add(`the encoding ${value}`)
    }
    this.#covered.add(`${at} as ${headers.Accept ?? 'application/json'}`)
  }

  noteMessage(name: string, message: object = {}): void {
    this.#covered.add(`the message ${name}`)
    for (const member of Object.keys(message)) this.#covered.add(`the message ${name} with ${member}`)
  }

  get missing(): readonly string[] {
    return expected().filter((one) => !this.#covered.has(one))
  }
}

function routeOf(path: string): string | undefined {
  const segments = path.split('/')
  return Object.keys(ROUTES).find((route) => {
    const names = route.split('/')
    const isAsLong = names.at(-1) === '{rest}' ? segments.length >= names.length : segments.length === names.length
    return isAsLong && names.every((name, index) => name === segments[index] || name.startsWith('{'))
  })
}

/** All that the server offers, as its description and its code list it. */
function expected(): readonly string[] {
  const all = new Set<string>()
  for (const [route, operations] of Object.entries(ROUTES)) {
    for (const method of METHODS) {
      const operation = operations[method]
      if (operation) for (const one of expectedOf(`${method} ${route}`, operation)) all.add(one)
    }
  }
  for (const name of [...PAGING, ...JSON_SERVER_PARAMETERS]) {
    all.add(name === '_dependent' ? `DELETE /api/{collection}/{id} ?${name}` : `GET /api/{collection} ?${name}`)
  }
  for (const operator of OPERATORS) all.add(`the operator ${operator}`)
  for (const encoding of Object.keys(DECODERS)) all.add(`the encoding ${encoding}`)
  for (const message of Object.keys(MESSAGES)) all.add(`the message ${message}`)
  for (const member of MEMBERS) all.add(`the message subscribe with ${member}`)
  all.add(`the message ${PLAIN_SOCKET}`)
  return [...all]
}

function* expectedOf(at: string, { parameters: names = [], body, responses }: Operation): Generator<string> {
  yield at
  for (const name of names as readonly ParameterName[]) {
    const { name: sent, in: place } = parameters[name]
    yield place === 'header' ? `the header ${sent}` : `${at} ?${sent}`
  }
  for (const type of Object.keys(body ?? {})) yield `${at} of ${type}`
  for (const [status, response] of Object.entries<Response>(responses)) {
    const types = Object.keys(response.body ?? {})
    if (status === '200' && types.length > 1) for (const type of types) yield `${at} as ${type}`
  }
}
