import assert from 'node:assert/strict'
import type { Files } from '../../src/files/files.ts'
import { until } from './deadline.ts'
import type { Scope } from './directory.ts'
import { type OwnService, startHere } from './service.ts'

export const HOUR_MS = 60 * 60 * 1000
export const DAY_MS = 24 * HOUR_MS
export const BEGIN_MS = Date.parse('2026-01-01T00:00:00Z')

/** A wall clock, and how often it was looked at. */
interface Clock {
  ms: number
  reads?: number
}

export interface House extends OwnService {
  clock: Clock
}

export interface HouseOptions {
  readonly collections: Readonly<Record<string, object>>
  readonly data?: unknown
  readonly directory?: string
  readonly clock?: Clock
  readonly flags?: readonly string[]
  readonly files?: Files
}

/** A server whose wall clock stands still until the test sets it. */
export async function house(t: Scope, options: HouseOptions): Promise<House> {
  const { collections, data = {}, directory, clock = { ms: BEGIN_MS } as Clock, flags = [], files } = options
  const service = await startHere(t, {
    data,
    now: () => {
      clock.reads = (clock.reads ?? 0) + 1
      return new Date(clock.ms)
    },
    flags: ['--Collections', JSON.stringify(collections), '--DataFile.Write', 'never', ...flags],
    ...(directory !== undefined && { directory }),
    ...(files !== undefined && { files }),
  })
  return { ...service, clock }
}

export const READINGS = { Time: 'time', Key: ['sensor', 'time'], Indexes: ['sensor,time'] }

export function reading(sensor: string, ms: number): object {
  return { sensor, time: new Date(ms).toISOString(), value: ms % 1000 }
}

export async function post(server: OwnService, path: string, body: unknown): Promise<Response> {
  return server.fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
}

/** One reading of each of two sensors for each hour up to a time, in order; the clock follows. */
export async function measure(server: House, hours: number): Promise<void> {
  for (let hour = 0; hour < hours; hour++) {
    server.clock.ms += HOUR_MS
    const { ms } = server.clock
    const response = await post(server, '/api/readings', [reading('a', ms), reading('b', ms)])
    assert.equal(response.status, 201, await response.clone().text())
  }
}

export async function json(server: OwnService, path: string): Promise<unknown> {
  const response = await server.fetch(path)
  assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`)
  return response.json()
}

export async function times(server: OwnService, query = ''): Promise<readonly string[]> {
  const items = (await json(server, `/api/readings?limit=10000${query}`)) as readonly { readonly time: string }[]
  return items.map(({ time }) => time)
}

/** Resolves when no item is older than a time. */
export function oldestIs(server: House, ms: number): Promise<unknown> {
  const wanted = new Date(ms).toISOString()
  return until(`the oldest reading is of ${wanted}`, async () => (await times(server))[0] === wanted)
}
