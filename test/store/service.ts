import assert from 'node:assert/strict'
import { get, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import type { ItemId } from '../../src/events/event.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { each, fetch, within } from '../support/deadline.ts'

/** An event as `/events` tells it. */
export interface Told {
  readonly position: number
  readonly type: string
  readonly collection: string
  readonly id?: ItemId
  readonly ids?: readonly ItemId[]
  readonly item?: JsonObject
}

/** The JSON of each item, by key, in the order of the collection. */
export type Items = ReadonlyMap<string, string>

const PAGE = 10_000

/** The fold of the events of a service, without any of the program's code. */
async function foldOfEvents(url: string): Promise<Map<string, Items>> {
  const collections = new Map<string, Map<string, string>>()
  let position = 0
  for await (const told of events(url)) {
    position++
    assert.equal(told.position, position, 'the positions of the events')
    const { type, collection } = told
    const items = collections.get(collection) ?? new Map<string, string>()
    if (type === 'CollectionRemoved') collections.delete(collection)
    else collections.set(collection, type === 'CollectionOrdered' ? ordered(items, told.ids ?? []) : items)
    if (type === 'ItemDeleted') items.delete(String(told.id))
    else if (told.item) items.set(String(told.id), JSON.stringify(told.item))
  }
  return collections
}

function ordered(items: ReadonlyMap<string, string>, ids: readonly ItemId[]): Map<string, string> {
  const keys = new Set([...ids.map(String).filter((key) => items.has(key)), ...items.keys()])
  return new Map(Array.from(keys, (key) => [key, items.get(key) as string]))
}

export async function* events(url: string, query = 'from=1'): AsyncGenerator<Told> {
  const answer = await within(
    'the response to GET /events',
    new Promise<IncomingMessage>((resolve, reject) => {
      get(`${url}/events?${query}`, { headers: { Accept: 'application/x-ndjson' } }, resolve).on('error', reject)
    }),
  )
  assert.equal(answer.statusCode, 200)
  const lines = each('the next line of /events', createInterface({ input: answer }))
  for await (const line of lines) yield JSON.parse(line) as Told
}

/** The items of the collections by GET. */
async function servedBy(url: string, names: Iterable<string>): Promise<Map<string, Items>> {
  const collections = new Map<string, Items>()
  for (const name of names) {
    const items = new Map<string, string>()
    for (let skip = 0; ; skip += PAGE) {
      const answer = await fetch(`${url}/api/${name}?skip=${skip}&take=${PAGE}`)
      assert.equal(answer.status, 200, name)
      const page = (await answer.json()) as JsonObject[]
      for (const item of page) items.set(String(item.id), JSON.stringify(item))
      if (page.length < PAGE) break
    }
    collections.set(name, items)
  }
  return collections
}

/** Holds all that GET gives against the events, in their order. */
export async function checkServed(url: string, context: string): Promise<Map<string, Items>> {
  const folded = await foldOfEvents(url)
  const served = await servedBy(url, folded.keys())
  for (const [name, items] of folded) {
    const difference = differenceOf([...(served.get(name) ?? [])], [...items])
    assert.equal(difference, undefined, `${context}: the items of ${name} are not what the events amount to`)
  }
  return folded
}

/** The first item that is another one, as both have it. */
function differenceOf(served: readonly unknown[], folded: readonly unknown[]): string | undefined {
  for (let at = 0; at < Math.max(served.length, folded.length); at++) {
    const [one, other] = [JSON.stringify(served[at]), JSON.stringify(folded[at])]
    if (one !== other) return `item ${at} of ${served.length} and ${folded.length}: ${one} is served, and not ${other}`
  }
  return undefined
}
