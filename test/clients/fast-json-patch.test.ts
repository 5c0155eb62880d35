import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import * as jsonpatch from 'fast-json-patch/index.mjs'
import { anyObject, Random, SEED } from '../support/random.ts'
import { json, startProgram } from '../support/server.ts'

const DOCUMENTS = 100
/** Names and texts that pointers escape, and some that look like indexes. */
const TEXTS = ['a', 'b', 'a/b', 'm~n', '~1', '', '0', '-', 'ä €', '"\\', 'length']

const { fetch } = await startProgram({ after }, { data: { documents: [] }, flags: ['--Api.UpsertOnPut', 'true'] })

async function put(id: number, document: object) {
  const answer = await fetch(`/api/documents/${id}`, json('PUT', document))
  assert.ok(answer.ok, `${answer.status} ${await answer.text()}`)
}

function patch(id: number, operations: readonly jsonpatch.Operation[], headers: Record<string, string> = {}) {
  return fetch(
    `/api/documents/${id}`,
    json('PATCH', operations, { 'Content-Type': 'application/json-patch+json', ...headers }),
  )
}

async function get(id: number): Promise<object> {
  return (await fetch(`/api/documents/${id}`)).json() as Promise<object>
}

for (const isInvertible of [false, true]) {
  const kind = isInvertible ? 'an invertible patch' : 'a patch'
  test(`${kind} that fast-json-patch makes of two documents turns one into the other`, async () => {
    const random = new Random(SEED)
    for (let id = 0; id < DOCUMENTS; id++) {
      const [before, after] = [0, 1].map(() => ({ id, ...anyObject(random, TEXTS, 3) })) as [object, object]
      const operations = jsonpatch.compare(before, after, isInvertible)
      if (operations.length === 0) continue
      await put(id, before)
      const answer = await patch(id, operations)
      const about = `SEED=${SEED}: ${JSON.stringify({ before, operations })}`
      assert.equal(answer.status, 204, `${await answer.text()} ${about}`)
      const found = await get(id)
      assert.deepEqual(found, jsonpatch.applyPatch(before, operations, true, false).newDocument, about)
      assert.deepEqual(found, after, about)
    }
  })
}

test('each operation of fast-json-patch has the result that the client computes', async () => {
  const before = { id: 200, firstName: 'Albert', contactDetails: { phoneNumbers: [] as object[] } }
  const operations: jsonpatch.Operation[] = [
    { op: 'replace', path: '/firstName', value: 'Joachim' },
    { op: 'add', path: '/lastName', value: 'Wester' },
    { op: 'add', path: '/contactDetails/phoneNumbers/0', value: { number: '555-123' } },
    { op: 'add', path: '/contactDetails/phoneNumbers/-', value: { number: '456' } },
    { op: 'copy', from: '/contactDetails/phoneNumbers/0', path: '/contactDetails/phoneNumbers/1' },
    { op: 'move', from: '/contactDetails/phoneNumbers', path: '/phoneNumbers' },
    { op: 'test', path: '/phoneNumbers/2', value: { number: '456' } },
    { op: 'remove', path: '/contactDetails' },
  ]
  await put(200, before)
  assert.equal((await patch(200, operations)).status, 204)
  assert.deepEqual(await get(200), jsonpatch.applyPatch(before, operations, true, false).newDocument)
})

test('the changes that fast-json-patch observes are applied', async () => {
  const document = { id: 201, firstName: 'Joachim', phoneNumbers: [{ number: '555-123' }] }
  await put(201, document)
  const observer = jsonpatch.observe<object>(document)
  document.firstName = 'Albert'
  document.phoneNumbers.push({ number: '456' })
  assert.equal((await patch(201, jsonpatch.generate(observer))).status, 204)
  assert.deepEqual(await get(201), document)
})

test('a patch whose test fails in fast-json-patch is 409 and changes nothing', async () => {
  const document = { id: 202, version: 2 }
  await put(202, document)
  const operations = jsonpatch.compare({ id: 202, version: 1 }, { id: 202, version: 3 }, true)
  assert.throws(() => jsonpatch.applyPatch(document, operations, true, false), { name: 'TEST_OPERATION_FAILED' })
  const answer = await patch(202, operations)
  assert.equal(answer.status, 409)
  assert.match(((await answer.json()) as { type: string }).type, /:Conflict$/)
  assert.deepEqual(await get(202), document)
})

test('a patch that fast-json-patch finds unresolvable is 422 and changes nothing', async () => {
  const document = { id: 203, list: [1] }
  await put(203, document)
  const impossible: readonly jsonpatch.Operation[] = [
    { op: 'remove', path: '/missing' },
    { op: 'replace', path: '/missing/deep', value: 1 },
    { op: 'move', from: '/missing', path: '/there' },
    { op: 'add', path: '/list/7', value: 1 },
  ]
  for (const operation of impossible) {
    assert.ok(jsonpatch.validate([operation], document), JSON.stringify(operation))
    const answer = await patch(203, [{ op: 'add', path: '/first', value: 1 }, operation])
    assert.equal(answer.status, 422, JSON.stringify(operation))
  }
  assert.deepEqual(await get(203), document)
})

test('a patch of fast-json-patch with If-Match is 412 when another client wrote in between', async () => {
  const document = { id: 204, title: 'first' }
  await put(204, document)
  const etag = (await fetch('/api/documents/204')).headers.get('ETag') ?? ''
  const operations = jsonpatch.compare(document, { ...document, title: 'second' })
  await put(204, { ...document, by: 'another client' })
  assert.equal((await patch(204, operations, { 'If-Match': etag })).status, 412)
  assert.deepEqual(await get(204), { ...document, by: 'another client' })
})
