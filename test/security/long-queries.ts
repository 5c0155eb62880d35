import assert from 'node:assert/strict'
import { send } from '../support/requests.ts'

/** A text that takes long to be searched for among the same letters. */
const SLOW_TO_FIND = `ab${'a'.repeat(198)}`

const QUERIES = [
  'a=5',
  'a=6',
  'a_ne=0&a_ne=7',
  'a_gt=[[[1]]]',
  'a_gte={"k1":1}',
  'a_in=1,[2],{}',
  'a_exists=true',
  'a.b.c_exists=true',
  'a.b=1',
  `a_contains=${SLOW_TO_FIND}`,
  'a_startswith=aab',
  'a_endswith=aab',
  'q=zz',
  `q=${SLOW_TO_FIND}`,
  'sort=a',
  'sort=-n,a.b',
  'a_gt=0&n=1&sort=a',
  'fields=a.b.c,n',
]

const JSON_BODY = { 'Content-Type': 'application/json' }

/** Stores an item whose field has that JSON, among others. */
export async function storeLong(url: string, collection: string, json: string): Promise<void> {
  for (const body of ['{"n":1,"a":1}', '{"n":2}', `{"n":3,"a":${json}}`]) {
    const path = `/api/${encodeURIComponent(collection)}`
    assert.equal((await send(url, 'POST', path, { body, headers: JSON_BODY })).status, 201)
  }
}

/** Stores one more item, and returns what asks every query, also as of the position before. */
export async function queriesOf(url: string, collection: string): Promise<() => Promise<void>> {
  const path = `/api/${encodeURIComponent(collection)}`
  const before = await send(url, 'GET', `${path}?pageSize=1`)
  await send(url, 'POST', path, { body: '{"n":9}', headers: JSON_BODY })
  const past = `asOf=${before.headers['journal-position']}&a=5&sort=a`
  return async () => {
    for (const query of [...QUERIES, past]) {
      const { status, text } = await send(url, 'GET', `${path}?${query}`)
      assert.equal(status, 200, `${query}: ${text}`)
    }
  }
}
