import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allowOf } from '../../src/http/exchange.ts'
import {
  COLLECTION,
  isOffered,
  methodsOf,
  OBJECT,
  type Offer,
  ROUTES,
  type Route,
} from '../../src/http/openapi/routes.ts'
import { authentication, keyOf } from '../support/authentication.ts'
import { send } from '../support/requests.ts'
import { registeredRoutes } from '../support/routes.ts'
import { startServer } from '../support/server.ts'

const DATA = { things: [{ id: 1, name: 'one' }], profile: { theme: 'dark' } }

test('every route that is served is described, and no other', async (t) => {
  const shape = (path: string): string => path.replace(/\{\w+\}|[:*]\w+/g, '{}')
  const served = [...(await registeredRoutes(t)).keys()].filter((path) => !path.startsWith('/swagger'))
  assert.deepEqual(served.map(shape).sort(), Object.keys(ROUTES).map(shape).sort())
})

const SERVERS: readonly (readonly [name: string, offer: Offer, flags: readonly string[]])[] = [
  ['a server', {}, []],
  ['a server with a reset', { hasReset: true }, ['--Api.Reset', 'true']],
  ['a server with tokens', { hasTokens: true }, authentication(['token', 'apikey'])],
  ['a read-only server', { isReadOnly: true }, ['--Api.ReadOnly', 'true']],
  ['a server like json-server', { hasReset: true, isJsonServer: true }, ['--Api.Compatibility', 'json-server']],
]

for (const [name, offer, flags] of SERVERS) {
  test(`${name} allows at each path the methods of its description`, async (t) => {
    const { url } = await startServer(t, { data: DATA, flags: [...flags] })
    const values: Readonly<Record<string, string>> = { collection: 'things', id: '1', rest: 'name', position: '1' }
    const routes: readonly (readonly [path: string, route: Route])[] = [
      ...Object.entries(ROUTES).filter(([path]) => path !== '/api/{collection}'),
      ['/api/things', COLLECTION],
      ['/api/profile', OBJECT],
    ]
    for (const [template, route] of routes) {
      const path = template.replace(/\{(\w+)\}/g, (_, parameter: string) => values[parameter] as string)
      const { status, headers } = await send(url, 'OPTIONS', path, { headers: { 'X-API-KEY': keyOf('admin') } })
      assert.equal(status, isOffered(route, offer) ? 200 : 404, path)
      if (status === 404) continue
      const allowed = allowOf(methodsOf(template, offer, route))
      assert.deepEqual(String(headers.allow).split(', ').sort(), allowed.split(', ').sort(), path)
    }
  })
}

test('the path of any collection has the methods of a list and those of a single object', () => {
  const methods = [COLLECTION, OBJECT].flatMap((route) => methodsOf('/api/{collection}', {}, route))
  assert.deepEqual([...methodsOf('/api/{collection}', {})].sort(), [...new Set(methods)].sort())
})
