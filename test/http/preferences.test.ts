import assert from 'node:assert/strict'
import { test } from 'node:test'
import { prefers } from '../../src/http/requests.ts'
import { send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const FIRST: readonly (readonly [prefer: readonly string[], isPreferred: boolean])[] = [
  [['return=minimal, return=representation'], false],
  [['return=minimal', 'return=representation'], false],
  [['Return="minimal";a=b, RETURN=representation'], false],
  [['return, return=representation'], false],
  [['return=, return=representation'], false],
  [['x="a, return=representation"'], false],
  [['x="\\", return=representation'], false],
  [['return=representation, return=minimal'], true],
  [['return=representation', 'return=minimal'], true],
  [['handling=strict, return=representation, handling=lenient'], true],
  [['x="return=minimal, \\"", return=representation'], true],
  [[', ,returns=minimal, return=representation'], true],
]

/** The fast front, and Koa, which answers pages. */
const WAYS: readonly Record<string, string>[] = [{}, { Origin: 'http://localhost' }]

test('the first of repeated preferences counts, in one header or several', async (t) => {
  const { url } = await startHere(t, { data: { things: [{ id: 1, n: 1 }] } })
  const json = { 'Content-Type': 'application/json' }
  for (const way of WAYS) {
    for (const [prefer, isPreferred] of FIRST) {
      const headers = { ...json, ...way, Prefer: [...prefer], 'Content-Length': '7' }
      const { status } = await send(url, 'PATCH', '/api/things/1', { headers, body: '{"n":2}' })
      assert.equal(status, isPreferred ? 200 : 204, prefer.join(' | '))
    }
    for (const [prefer, status] of [
      [['handling=strict, handling=lenient'], 422],
      [['handling=strict', 'handling=lenient'], 422],
      [['handling=lenient, handling=strict'], 200],
      [['return=minimal, handling=lenient'], 200],
    ] as const) {
      const headers = { ...json, ...way, Prefer: [...prefer] }
      assert.equal((await send(url, 'POST', '/api/things', { headers, body: '[{},5]' })).status, status, prefer.join())
    }
  }
})

test('a preference without a value may have an empty one, and one with a value is another', () => {
  for (const prefer of [
    'only-if-newer',
    'only-if-newer=',
    'Only-If-Newer = ""',
    'only-if-newer;a=b',
    'only-if-newer,only-if-newer=x',
  ]) {
    assert.equal(prefers({ prefer }, 'only-if-newer'), true, prefer)
  }
  for (const prefer of ['only-if-newer=no', 'only-if-newer=x, only-if-newer', 'only-if-newer="x"', 'only-if']) {
    assert.equal(prefers({ prefer }, 'only-if-newer'), false, prefer)
  }
})
