import type { Resource } from './exchange.ts'

/** The resources of a read-only server: those with data have reading methods only, and say why. */
export function readOnly(resources: readonly Resource[], whyNot: string): readonly Resource[] {
  return resources.map((resource) => {
    const { path, routes } = resource
    if (!/^\/(?:api|admin)(?:\/|$)/.test(path) || changesNoData(path)) return resource
    const { methodsAt: _, ...rest } = resource
    return { ...rest, whyNot, routes: routes.GET ? { GET: routes.GET } : {} }
  })
}

/** Whether a read-only server offers all methods of a path: reading the settings again changes no data. */
export function changesNoData(path: string): boolean {
  return path.startsWith('/admin/settings/')
}
