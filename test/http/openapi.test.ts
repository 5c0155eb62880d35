import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { OpenApi, type OpenApiOptions } from '../../src/http/openapi/openapi.ts'
import { schemaOf } from '../../src/http/openapi/schema-of.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { SEED } from '../support/random.ts'
import { type Reply, type Sent, send } from '../support/requests.ts'
import { registeredRoutes, startServer } from '../support/service.ts'

interface Documented {
  readonly operationId: string
  readonly security?: readonly object[]
  readonly parameters: readonly { readonly $ref: string }[]
  readonly requestBody?: { readonly content: object }
  readonly responses: Readonly<Record<string, { readonly $ref?: string }>>
}
interface DocumentedResponse {
  readonly headers: Readonly<Record<string, object>>
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}
interface Document {
  readonly security: readonly object[]
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>
  readonly components: Readonly<Record<'schemas' | 'parameters' | 'headers' | 'responses', Record<string, object>>>
}

/** Names that a path, a template, a component, a page or an object could stumble over. */
const NAMES = [
  'a/b',
  '{id}',
  '{collection}',
  '</script>',
  '€ ü',
  '__proto__',
  'a%2Fb',
  'a b?c#d',
  '.',
  '"\\',
  'Journal',
]
const SENSORS = [
  { id: 1, name: 'one', data: { humidity: 42.5, battery: 2984, identifier: null }, tags: ['x', 7] },
  { id: 'F4:A5', name: null, data: { humidity: 43 } },
]

const PROFILE = { id: 7, theme: 'dark', window: { width: 80 } }
/** The operations of a list of items: the generic path has those of a single object, too. */
const LIST_METHODS = 'delete,get,head,options,post,put'

test('/openapi.json', async (t) => {
  const data = {
    sensors: SENSORS,
    profile: PROFILE,
    ...Object.fromEntries(NAMES.map((name) => [name, [{ id: 1, name }]])),
    empty: [],
  }
  const flags = ['--Api.UpsertOnPut', 'true', '--Api.ClientIdsOnPost', 'true', '--Limits.BodyBytes', '2000']
  const { url } = await startServer(t, { data, flags })
  const document = (await send(url, 'GET', '/openapi.json')).json<Document>()

  await t.test('is valid OpenAPI 3.1 by the official schema', async () => {
    const validator = new Validator()
    const result = await validator.validate(structuredClone(document) as unknown as Record<string, unknown>)
    assert.deepEqual(result, { valid: true })
    assert.equal(validator.version, '3.1')
  })

  await t.test('contains only valid JSON Schemas and resolvable references', () => {
    const ajv = new Ajv2020({ strict: false })
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      assert.ok(ajv.validateSchema(schema), `${name}: ${ajv.errorsText()}`)
    }
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/(\w+)\/([^"]+)"/g)]
    assert.ok(references.length > 100)
    const used = new Set<string>()
    for (const [, kind, name] of references as unknown as [string, keyof Document['components'], string][]) {
      assert.ok(document.components[kind][name], `${kind}/${name}`)
      used.add(`${kind}/${name}`)
    }
    const all = Object.entries(document.components).flatMap(([kind, named]) =>
      Object.keys(named).map((name) => `${kind}/${name}`),
    )
    assert.deepEqual(
      all.filter((name) => !used.has(name)),
      [],
    )
  })

  await t.test('names every operation and every tag once', () => {
    const ids = operations(document).map(({ operation }) => operation.operationId)
    assert.equal(new Set(ids).size, ids.length)
    const tags = document.tags.map(({ name }) => name)
    assert.equal(new Set(tags).size, tags.length)
  })

  await t.test('contains no parameter twice', () => {
    for (const { path, method, operation } of operations(document)) {
      const parameters = operation.parameters.map(({ $ref }) => resolve<{ in: string; name: string }>(document, $ref))
      const names = parameters.map((parameter) => `${parameter.in} ${parameter.name}`)
      assert.equal(new Set(names).size, names.length, `${method} ${path}: ${names}`)
    }
  })

  await t.test('documents each collection under its path', async () => {
    for (const name of ['sensors', 'empty', ...NAMES]) {
      const own = Object.entries(document.paths).filter(([path]) => decodedName(path) === name)
      assert.deepEqual(
        own.map(([, item]) => Object.keys(item).sort().join()),
        ['delete,get,head,options,post,put', 'delete,get,head,options,patch,put'],
        name,
      )
      const [path] = own[0] as [string, unknown]
      const reply = await send(url, 'GET', path)
      assert.equal(reply.status, 200, path)
      const { name: first } = reply.json<{ name?: string }[]>()[0] ?? {}
      if (NAMES.includes(name)) assert.equal(first, name)
    }
  })

  await t.test(
    'documents every path: OPTIONS allows the documented methods, and every status is documented',
    async () => {
      for (const { path, method, operation } of operations(document)) {
        const filled = fill(path)
        // The collections are needed by the tests that follow.
        const search = method === 'delete' && operation.operationId.startsWith('deleteItems') ? '?dryRun=true' : ''
        const reply = await send(url, method.toUpperCase(), filled + search)
        check(document, operation, reply, `${method} ${filled}`)
        assert.doesNotMatch(reply.text, /Nothing is served at/, `${method} ${filled}`)
        if (method !== 'options') continue
        const allowed = String(reply.headers.allow).toLowerCase().split(', ').sort().join()
        const documented = Object.keys(document.paths[path] as object)
        const isAny = path === '/api/{collection}'
        assert.equal(allowed, isAny ? LIST_METHODS : documented.sort().join(), path)
        if (isAny) continue
        const patch = document.paths[path]?.patch
        const types = patch && Object.keys(patch.requestBody?.content ?? {}).sort()
        assert.deepEqual((reply.headers['accept-patch'] as string | undefined)?.split(', ').sort(), types, path)
      }
    },
  )

  await t.test('documents the status, headers, content type and schema of each response', async () => {
    const tag = String((await send(url, 'GET', '/api/sensors/F4:A5')).headers.etag)
    const etag = { 'If-None-Match': tag }
    const wanted = { Prefer: 'return=representation' }
    const merge = { 'Content-Type': 'application/merge-patch+json' }
    const steps = { 'Content-Type': 'application/json-patch+json' }
    const item = '/api/sensors/{id}'
    const any = '/api/{collection}'
    const object = '/api/profile'
    const one = '/api/sensors/F4:A5'
    const samples: readonly [status: number, method: string, template: string, path: string, sent?: Sent][] = [
      [200, 'GET', '/api', '/api'],
      [200, 'GET', any, '/api/sensors?pageSize=1&page=2&q=one&fields=id'],
      [200, 'GET', any, '/api/sensors?aggregate=count,avg(data.humidity)&groupBy=name'],
      [200, 'GET', any, '/api/sensors?distinct=id'],
      [200, 'GET', '/api/sensors', '/api/sensors'],
      [200, 'HEAD', any, '/api/sensors'],
      [400, 'GET', any, '/api/sensors?page=0'],
      [404, 'GET', any, '/api/nothing'],
      [201, 'POST', any, '/api/made', body({ name: 'x' })],
      [201, 'POST', any, '/api/made', body({ name: 'y' }, wanted)],
      [400, 'POST', any, '/api/made', body(null)],
      [409, 'POST', any, '/api/made', body({ id: 0 })],
      [413, 'POST', any, '/api/made', body({ name: 'x'.repeat(3000) })],
      [415, 'POST', any, '/api/made', { body: '{}' }],
      [422, 'POST', any, '/api/made', body([1])],
      [201, 'POST', any, '/api/made', body([{ name: 'a' }, { name: 'b' }])],
      [200, 'POST', any, '/api/made', body([{ name: 'a' }, 7], { Prefer: 'handling=lenient' })],
      [201, 'PUT', any, '/api/fresh'],
      [204, 'PUT', any, '/api/fresh'],
      [400, 'PUT', any, '/api/fresh', body([])],
      [200, 'DELETE', any, '/api/made?name=a&dryRun=true'],
      [200, 'DELETE', any, '/api/made?name=a'],
      [400, 'DELETE', any, '/api/fresh'],
      [200, 'DELETE', any, '/api/fresh?all=true'],
      [404, 'DELETE', any, '/api/fresh?all=true'],
      [400, 'DELETE', any, '/api/made?page=1'],
      [200, 'GET', item, one],
      [304, 'GET', item, one, { headers: etag }],
      [304, 'HEAD', item, one, { headers: etag }],
      [400, 'GET', `${any}/{id}`, '/api/nothing/1'],
      [404, 'GET', item, '/api/sensors/nothing'],
      [201, 'PUT', item, '/api/sensors/new', body({ name: 'x' })],
      [204, 'PUT', item, '/api/sensors/new', body({ name: 'y' })],
      [200, 'PUT', item, '/api/sensors/new', body({ name: 'z' }, wanted)],
      [409, 'PUT', item, '/api/sensors/new', body({ id: 'other' })],
      [412, 'PUT', item, '/api/sensors/new', body({ name: 'z' }, { 'If-Match': '"x"' })],
      [412, 'PUT', item, '/api/sensors/new', body({ name: 'z' }, { 'If-None-Match': '*' })],
      [204, 'PATCH', item, '/api/sensors/new', body({ name: 'p' }, merge)],
      [200, 'PATCH', item, '/api/sensors/new', body({ name: 'p' }, { ...merge, ...wanted })],
      [409, 'PATCH', item, '/api/sensors/new', body([{ op: 'test', path: '/name', value: 1 }], steps)],
      [422, 'PATCH', item, '/api/sensors/new', body([{ op: 'remove', path: '/gone' }], steps)],
      [404, 'PATCH', item, '/api/sensors/nothing', body({ name: 'p' })],
      [204, 'DELETE', item, '/api/sensors/new', { headers: { 'Idempotency-Key': 'k' } }],
      [422, 'DELETE', item, '/api/sensors/other', { headers: { 'Idempotency-Key': 'k' } }],
      [404, 'DELETE', item, '/api/sensors/new'],
      // The requests to every path have deleted it.
      [201, 'PUT', object, object, body(PROFILE)],
      [200, 'GET', any, object],
      [200, 'GET', object, object],
      [304, 'GET', object, object, { headers: { 'If-None-Match': '*' } }],
      [204, 'PUT', object, object, body(PROFILE)],
      [200, 'PATCH', object, object, body({ theme: 'light' }, { ...merge, ...wanted })],
      [412, 'PATCH', object, object, body({ theme: 'light' }, { ...merge, 'If-Match': '"x"' })],
      [204, 'DELETE', object, object],
      [404, 'GET', object, object],
      [404, 'DELETE', object, object],
      [201, 'PUT', object, object, body(PROFILE)],
      [409, 'POST', any, object, body(PROFILE)],
      [200, 'GET', `${any}/{id}/{rest}`, `${one}/data/humidity`],
      [200, 'PUT', `${any}/{id}/{rest}`, `${one}/data/humidity`, body(7, wanted)],
      [204, 'PATCH', `${any}/{id}/{rest}`, `${one}/data/humidity`, body(8, merge)],
      [400, 'GET', `${any}/{id}/{rest}`, '/api/sensors/nothing/data'],
      [404, 'GET', `${any}/{id}/{rest}`, `${one}/nothing`],
      [200, 'GET', '/events', '/events?limit=5'],
      [200, 'GET', '/events', '/events?type=ItemDeleted'],
      [200, 'GET', '/events', '/events', { headers: { Accept: 'application/x-ndjson' } }],
      [400, 'GET', '/events', '/events?limit=0'],
      [409, 'GET', '/events', '/events?journal=another'],
      [406, 'GET', '/events', '/events', { headers: { Accept: 'image/png' } }],
      [200, 'GET', '/events/{position}', '/events/1'],
      [404, 'GET', '/events/{position}', '/events/999999'],
      [200, 'GET', '/health', '/health'],
      [200, 'POST', '/admin/reload', '/admin/reload'],
      [200, 'POST', '/admin/snapshot', '/admin/snapshot'],
      [200, 'GET', '/openapi.json', '/openapi.json'],
    ]
    const bodies = new Ajv2020({ strict: false })
    addFormats.default(bodies)
    bodies.addSchema(document, 'document')
    for (const [status, method, template, path, sent] of samples) {
      const reply = await send(url, method, path, sent)
      const what = `${method} ${template} ${status}`
      assert.equal(reply.status, status, `${what}: ${reply.text}`)
      const operation = document.paths[template]?.[method.toLowerCase()]
      assert.ok(operation, what)
      const response = check(document, operation, reply, what)
      const type = String(reply.headers['content-type']).split(';')[0] as string
      if (reply.text === '' || !/json$/.test(type) || type === 'application/x-ndjson') continue
      const schema = JSON.stringify(response.content?.[type]?.schema)
      const validate = bodies.compile(JSON.parse(schema.replaceAll('"#/', '"document#/')))
      assert.ok(validate(reply.json()), `${what}: ${bodies.errorsText(validate.errors)}`)
    }
  })

  await t.test('contains names and types of the items, and none of their values', () => {
    assert.deepEqual(document.components.schemas.NewItem_sensors, {
      description: 'The fields of the first items; others may differ.',
      type: 'object',
      properties: {
        id: { type: ['integer', 'string'] },
        name: { type: ['string', 'null'] },
        data: {
          type: 'object',
          properties: { humidity: { type: 'number' }, battery: { type: 'integer' }, identifier: {} },
        },
        tags: { type: 'array', items: { type: ['string', 'integer'] } },
      },
    })
    assert.doesNotMatch(JSON.stringify(document), /2984|F4:A5/)
  })

  await t.test('describes a single object by its own path and members', () => {
    assert.deepEqual(
      Object.keys(document.paths['/api/profile'] ?? {})
        .sort()
        .join(),
      'delete,get,head,options,patch,put',
    )
    assert.equal(document.paths['/api/profile/{id}'], undefined)
    assert.deepEqual(document.components.schemas.Item_profile, {
      description: 'The current fields.',
      type: 'object',
      properties: {
        id: { type: 'integer' },
        theme: { type: 'string' },
        window: { type: 'object', properties: { width: { type: 'integer' } } },
      },
    })
  })

  await t.test('is updated when collections change', async () => {
    assert.equal(document.paths['/api/later'], undefined)
    await send(url, 'POST', '/api/later', body({ name: 'x' }))
    const later = (await send(url, 'GET', '/openapi.json')).json<Document>()
    assert.ok(later.paths['/api/later'])
    assert.deepEqual(later.paths['/api/{collection}'], document.paths['/api/{collection}'])
  })

  await t.test('has a bounded size; the generic paths cover the rest', async (t) => {
    const wide = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`member${index}`, index]))
    const data = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`c${index}`, [{ id: 1, ...wide }]]))
    const other = await startServer(t, { data })
    const bounded = (await send(other.url, 'GET', '/openapi.json')).json<Document>()
    assert.deepEqual(bounded.components.schemas.NewItem_c0, {
      description: 'The fields of the first items; others may differ.',
      type: 'object',
      additionalProperties: true,
    })
    assert.ok(bounded.paths['/api/c49'])
    assert.equal(bounded.paths['/api/c50'], undefined)
  })

  await t.test('omits names of collections and items that are too long', async (t) => {
    const long = { id: 1, text: 'a'.repeat(70_000) }
    const data = { ['n'.repeat(257)]: [{ id: 1 }], long: [long, { id: 2, short: true }], longer: [long] }
    const other = await startServer(t, { data })
    const { paths, components } = (await send(other.url, 'GET', '/openapi.json')).json<Document>()
    assert.deepEqual(
      Object.keys(paths).filter((path) => decodedName(path) !== undefined),
      ['/api/long', '/api/long/{id}', '/api/longer', '/api/longer/{id}'],
    )
    assert.deepEqual((components.schemas.NewItem_long as { properties: object }).properties, {
      id: { type: 'integer' },
      short: { type: 'boolean' },
    })
    assert.deepEqual(components.schemas.NewItem_longer, { $ref: '#/components/schemas/Item' })
  })
})

for (const isJsonServer of [false, true]) {
  test(`documents every route but those of its page with every method, and no other${isJsonServer ? ', as json-server' : ''}`, async (t) => {
    const views = { position: 1, names: () => [], find: () => undefined }
    const description = new OpenApi({
      version: '0',
      views,
      schemes: ['token', 'basic', 'apikey'],
      isJsonServer,
      hasReset: true,
    })
    const { paths } = JSON.parse(String((await description.document()).text)) as Document
    const routes = [...(await registeredRoutes(t, isJsonServer ? ['--Api.Compatibility', 'json-server'] : []))].flatMap(
      ([path, methods]) =>
        (path.startsWith('/swagger') ? [] : [...methods]).map((method) => `${method} ${shape(path)}`),
    )
    const documented = operations({ paths }).map(({ path, method }) => `${method.toUpperCase()} ${shape(path)}`)
    const refused = isJsonServer ? ['DELETE /api/{}', 'POST /api'] : []
    assert.ok(routes.length > 40)
    assert.deepEqual([...documented, ...refused].sort(), routes.sort())
  })
}

test('is compressed for clients that accept gzip, with the same content', async (t) => {
  const server = await startServer(t, { data: { sensors: [{ id: 1 }] } })
  const [plain, compressed] = await Promise.all(
    ['identity', 'gzip, br'].map((accepted) =>
      server.fetch('/openapi.json', { headers: { 'Accept-Encoding': accepted } }),
    ),
  )
  assert.equal(plain?.headers.get('content-encoding'), null)
  assert.equal(compressed?.headers.get('content-encoding'), 'gzip')
  for (const reply of [plain, compressed]) assert.match(String(reply?.headers.get('vary')), /(?:^|, )Accept-Encoding$/)
  assert.ok(Number(compressed?.headers.get('content-length')) < 20_000)
  assert.equal(await compressed?.text(), await plain?.text())
})

test('is generated once per position, for any number of concurrent requests', async () => {
  let looks = 0
  const views = { position: 1, names: () => [`c${looks++}`], find: () => undefined }
  const description = new OpenApi({ version: '0', views, schemes: [] })
  const ask = async (): Promise<string[]> => {
    const texts = await Promise.all(Array.from({ length: 10 }, () => description.document()))
    return [...new Set(texts.map(({ text }) => JSON.parse(String(text)).tags[0].name))]
  }
  assert.deepEqual([...(await ask()), ...(await ask())], ['/api/c0', '/api/c0'])
  views.position = 2
  assert.deepEqual(await ask(), ['/api/c1'])
})

test('values satisfy the schema inferred from them', () => {
  const ajv = new Ajv2020({ strict: false, ownProperties: true })
  const check = (values: readonly JsonValue[]): void => {
    const validate = ajv.compile(schemaOf(values))
    for (const value of values) assert.ok(validate(value), ajv.errorsText(validate.errors))
    ajv.removeSchema()
  }
  const value = fc.jsonValue({ maxDepth: 6 }) as fc.Arbitrary<JsonValue>
  fc.assert(fc.property(fc.array(value, { maxLength: 5 }), check), { seed: SEED, numRuns: 300 })
  check([[...Array(20).keys(), 'the twenty-first']])
  check([{ valueOf: 1 }, {}])
  check([{ a: [{ b: 1 }] }, { a: [{ b: null, c: [] }] }, { a: 'a' }])
})

test('a schema inferred from integers and other numbers has the type number', () => {
  assert.deepEqual(schemaOf([1, 2]), { type: 'integer' })
  assert.deepEqual(schemaOf([1, 2.5]), { type: 'number' })
  assert.deepEqual(schemaOf([]), {})
})

/** A server without files: collections by their names, with one item each. */
async function documentOf(
  items: Readonly<Record<string, JsonObject>>,
  options: Partial<OpenApiOptions> = {},
): Promise<Document> {
  const find = (name: string) => {
    const value = items[name] as JsonObject
    return { isObject: false, items: () => [{ value, text: JSON.stringify(value) }] }
  }
  const views = { position: 1, names: () => Object.keys(items), find } as unknown as OpenApiOptions['views']
  return JSON.parse(String((await new OpenApi({ version: '0', views, schemes: [], ...options }).document()).text))
}

test('operation ids are identifiers that stay different when a generator joins their words', async () => {
  const names = ['order-items', 'order_items', 'orderItems', 'ORDER ITEMS', '1st', 'Überschrift', 'Uberschrift', '日本']
  const odd = ['constructor', 'a.b', 'a-b', 'ab', 'ab2', '-', '.', '€', 'a/b', '"', 'Problem', 'Event', 's']
  const all = [...names, ...odd, '__proto__']
  const items: Record<string, JsonObject> = Object.fromEntries(all.map((name) => [name, { id: 1 }]))
  const document = await documentOf(items)
  const ids = operations(document).map(({ operation }) => operation.operationId)
  for (const id of ids) assert.match(id, /^[a-z][A-Za-z0-9_]*$/)
  const camel = ids.map((id) => id.replace(/_+(.?)/g, (_, first: string) => first.toUpperCase()))
  assert.equal(new Set(camel).size, ids.length)
  for (const name of ['order_items', '1st', 'Uberschrift', 'constructor', 'Problem']) {
    assert.ok(ids.includes(`getItems_${name}`), name)
  }
  const schemas = Object.keys(document.components.schemas)
  for (const name of schemas) assert.match(name, /^[A-Z]\w*$/)
  assert.equal(new Set(schemas.map((name) => name.replaceAll('_', '').toLowerCase())).size, schemas.length)
})

test('a collection keeps its name in operation ids when others come after it', async () => {
  const ids = async (...names: string[]) =>
    operations(await documentOf(Object.fromEntries(names.map((name) => [name, { id: 1 }]))))
      .filter(({ path, method }) => method === 'get' && path.startsWith('/api/a') && !path.endsWith('}'))
      .map(({ operation }) => operation.operationId)
  assert.deepEqual(await ids('a-b'), ['getItems_a_b'])
  assert.deepEqual(await ids('a-b', 'a_b', 'aB'), ['getItems_a_b', 'getItems_a_b_2', 'getItems_aB_3'])
})

test('public operations say so, others need any of the schemes, and none does without authentication', async () => {
  const open = await documentOf({ a: { id: 1 } })
  assert.deepEqual(open.security, [])
  assert.ok(operations(open).every(({ operation }) => operation.security === undefined))
  const closed = await documentOf({ a: { id: 1 } }, { schemes: ['token', 'apikey'] })
  assert.deepEqual(closed.security, [{ token: [] }, { apikey: [] }, { apikeyAsBearer: [] }])
  const free = operations(closed).filter(({ operation }) => operation.security !== undefined)
  assert.deepEqual([...new Set(free.map(({ path }) => path))].sort(), ['/health', '/openapi.json', '/token'])
  for (const { operation } of free) assert.deepEqual(operation.security, [])
})

test('every example satisfies its schema', async () => {
  for (const options of [{}, { idField: '_id' }, { schemes: ['token'] }, { isJsonServer: true }] as const) {
    const document = await documentOf({ a: { id: 1, examples: ['x'], example: null } }, options)
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    ajv.addSchema(document, 'document')
    let count = 0
    for (const { schema, example } of examplesIn(document)) {
      const validate = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')))
      assert.ok(validate(example), `${JSON.stringify(example)}: ${ajv.errorsText(validate.errors)}`)
      count++
    }
    assert.ok(count > 15, `${count} examples`)
  }
})

/** The examples of schemas, and those beside a schema. */
function* examplesIn(node: unknown): Generator<{ readonly schema: object; readonly example: unknown }> {
  if (typeof node !== 'object' || node === null) return
  const { examples, example, schema } = node as Record<string, unknown>
  if (Array.isArray(examples)) for (const one of examples) yield { schema: node, example: one }
  if (example !== undefined && typeof schema === 'object' && schema !== null) yield { schema, example }
  for (const inner of Object.values(node)) yield* examplesIn(inner)
}

test('a read-only server documents no component that nothing refers to', async () => {
  const text = JSON.stringify(await documentOf({ a: { id: 1 } }, { isReadOnly: true }))
  const { components } = JSON.parse(text) as Document
  for (const [kind, named] of Object.entries(components)) {
    for (const name of Object.keys(named)) assert.ok(text.includes(`"#/components/${kind}/${name}"`), `${kind}/${name}`)
  }
  assert.equal(components.schemas.JsonPatch, undefined)
})

test('an item that is read has its id, and one that is sent need not', async () => {
  for (const idField of ['id', '_id']) {
    const { components, paths } = await documentOf({ a: { [idField]: 'x', n: 1 } }, { idField })
    const ajv = new Ajv2020({ strict: false })
    ajv.addSchema({ components }, 'document')
    const isValid = (schema: object | undefined, value: unknown) =>
      ajv.validate(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')), value)
    assert.ok(isValid(components.schemas.Item_a, { [idField]: 'x', n: 1 }))
    assert.ok(!isValid(components.schemas.Item_a, { n: 1 }))
    assert.ok(isValid(components.schemas.NewItem_a, { n: 1 }))
    const sent = paths['/api/a/{id}']?.put?.requestBody?.content as Record<string, { schema: object }>
    assert.deepEqual(sent['application/json']?.schema, { $ref: '#/components/schemas/NewItem_a' })
  }
})

test('a list of a known collection has only parameters and formats that leave its items whole', async () => {
  const document = await documentOf({ a: { id: 1 } })
  const typesAt = (path: string) => {
    const list = document.paths[path]?.get?.responses[200] as DocumentedResponse | undefined
    return Object.keys(list?.content ?? {})
  }
  assert.deepEqual(typesAt('/api/a'), ['application/json'])
  assert.deepEqual(typesAt('/api/{collection}'), ['application/json', 'application/x-ndjson', 'text/csv'])
  const namesAt = (path: string) =>
    document.paths[path]?.get?.parameters.map(({ $ref }) => $ref.replace('#/components/parameters/', '')) ?? []
  const shaping = ['fields', 'aggregate', 'groupBy', 'window', 'tz', 'fill', 'distinct']
  const any = namesAt('/api/{collection}').filter((name) => name !== 'collection')
  assert.deepEqual(
    namesAt('/api/a'),
    any.filter((name) => !shaping.includes(name)),
  )
  for (const name of [...shaping, 'newestBy', 'filters', '_embed']) assert.ok(any.includes(name), name)
})

function body(value: unknown, headers: Readonly<Record<string, string>> = {}): Sent {
  return { headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(value) }
}

function operations(document: Pick<Document, 'paths'>) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  )
}

function resolve<T>(document: Document, reference: string): T {
  const [, , kind, name] = reference.split('/') as [string, string, keyof Document['components'], string]
  return document.components[kind][name] as T
}

/** The reply's status is listed, and so are the headers that say something and the type of its body. */
function check(document: Document, operation: Documented, reply: Reply, what: string): DocumentedResponse {
  const listed = operation.responses[String(reply.status)]
  assert.ok(listed, `${what}: ${reply.status} is not listed`)
  const response = listed.$ref
    ? resolve<DocumentedResponse>(document, listed.$ref)
    : (listed as unknown as DocumentedResponse)
  const sent = Object.keys(document.components.headers).filter(
    (name) => reply.headers[name.toLowerCase()] !== undefined,
  )
  for (const name of sent) {
    if (name === 'Cache-Control' || name === 'Vary') continue
    assert.ok(response.headers[name], `${what}: ${name} is not listed for ${reply.status}`)
  }
  if (reply.text === '') return response
  const type = String(reply.headers['content-type']).split(';')[0] as string
  assert.ok(response.content?.[type], `${what}: ${type} is not listed for ${reply.status}`)
  return response
}

function fill(path: string): string {
  const values: Readonly<Record<string, string>> = {
    collection: 'sensors',
    id: '1',
    rest: 'name',
    position: '1',
    name: 'swagger-ui.min.css',
  }
  return path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] as string)
}

function shape(path: string): string {
  return path.replace(/\{\w+\}|[:*]\w+/g, '{}')
}

/** The collection that a concrete path is of. */
function decodedName(path: string): string | undefined {
  const [, segment] = /^\/api\/([^/{]+)(?:\/\{id\})?$/.exec(path) ?? []
  return segment === undefined ? undefined : decodeURIComponent(segment)
}
