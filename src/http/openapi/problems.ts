import type { JsonObject } from '../../json/value.ts'
import { PROBLEMS } from '../problems.ts'
import { type HeaderName, headerRefs } from './parameters.ts'
import { ref } from './references.ts'

/** Descriptions of problems by status. */
const DESCRIPTIONS = {
  400: 'No body, or one that is not well-formed; a malformed query, path, patch or header; an unknown collection above an item that is read.',
  401: 'Credentials are missing, wrong, expired or revoked; `WWW-Authenticate` lists the schemes.',
  403: 'The request comes from a page of a forbidden origin, or the role of the client does not suffice.',
  404: 'Nothing is there.',
  405: 'A list of items has no such method; `Allow` says which it has.',
  406: 'None of the available formats is acceptable.',
  409: 'The `id` in the body differs from the one in the path; the patch changes it, or one of its tests fails; an item of this `id` exists already; a single object has no items.',
  412: 'The condition of `If-Match` or `If-None-Match` does not hold. Nothing was written.',
  413: 'The body is too large.',
  414: 'The query is longer than `Limits.QueryBytes`.',
  415: 'The content type is missing or not accepted here, or the content coding is not; `Accept`, `Accept-Patch` or `Accept-Encoding` lists what is accepted.',
  422: 'JSON, but not an item that is accepted, or a patch that cannot be applied; or the `Idempotency-Key` came with another request.',
  429: 'Too many wrong credentials came from this address, or it has too many streams open; or too many whole results are being sent.',
  503: 'Not possible at the moment, and nothing was written: writes are impossible, the journal cannot be read, the server has too many open connections or files, or the position in `Wait-For-Position` is not available yet.',
  504: 'In a cluster: it is unknown whether this was stored. A retry with the same `Idempotency-Key` is stored once.',
  507: 'The disk is full. Nothing was written.',
} as const

const HEADERS: Readonly<Record<number, readonly HeaderName[]>> = {
  405: ['Allow'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

export type ProblemStatus = keyof typeof DESCRIPTIONS

/** The responses with problems, by the names of their components. */
export const responses: Readonly<Record<string, JsonObject>> = {
  ...Object.fromEntries(
    Object.entries(DESCRIPTIONS).map(([status, description]) => [
      `Problem${status}`,
      problem(Number(status), description),
    ]),
  ),
  Problem: problem(405, 'Any other problem. The one of a method that is not allowed here says in `Allow` which are.'),
}

/** The example is the first refusal with that status. */
function problem(status: number, description: string): JsonObject {
  const [code, answered] = Object.entries(PROBLEMS).find(([, answer]) => answer.status === status) ?? []
  const example = {
    type: `urn:recollect:problem:${code}`,
    ...answered,
    detail: 'An explanation for people.',
    instance: '/api/sensors/1',
    ...(status === 422 && { errors: [{ pointer: '/name', message: 'must be string' }] }),
  }
  return {
    description,
    headers: headerRefs([...(HEADERS[status] ?? []), 'Journal-Position', 'X-Request-Id']),
    content: { 'application/problem+json': { schema: ref('Problem'), example } },
  }
}

export function problemRefs(statuses: Iterable<ProblemStatus>): JsonObject {
  return Object.fromEntries(Array.from(statuses, (status) => [status, ref(`Problem${status}`, 'responses')]))
}
