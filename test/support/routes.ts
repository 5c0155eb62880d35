import { mock } from 'node:test'
import type Router from '@koa/router'
import Koa from 'koa'
import { authentication } from './authentication.ts'
import type { Scope } from './directory.ts'
import { startHere } from './service.ts'

/** The paths that a service in which all schemes are in use has registered with Koa, with their methods. */
export async function registeredRoutes(
  t: Scope,
  flags: readonly string[] = [],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const use = mock.method(Koa.prototype, 'use')
  await startHere(t, {
    data: {},
    flags: [...authentication(['token', 'basic', 'apikey']), '--Api.Reset', 'true', ...flags],
  })
  use.mock.restore()
  const routes = new Map<string, Set<string>>()
  for (const [middleware] of use.mock.calls.map((call) => call.arguments)) {
    const { router } = middleware as { readonly router?: Router }
    for (const { path, methods } of router?.stack ?? []) {
      const known = routes.get(String(path)) ?? new Set()
      routes.set(String(path), known)
      // A path that answers 405 to all methods is no route.
      if (methods.length <= 5) for (const method of methods) known.add(method)
    }
  }
  return routes
}
