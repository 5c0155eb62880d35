import type { Health } from '../http/admin.ts'
import type { ServiceContext } from './service-context.ts'

/** The source of `/health`. The uptime counts from this call. */
export function healthOf({ engine, settings, dependencies, readOnly, clock }: ServiceContext): () => Health {
  const { elapsedMs, version } = dependencies
  const began = elapsedMs()
  return () => {
    const { status, ...parts } = engine.health()
    const jump = clock.last
    // The names of fields are not public.
    const [building] = engine.queries.list().flatMap(({ built }) => built ?? [])
    return {
      status,
      position: engine.views.position,
      uptime: Math.round((elapsedMs() - began) / 1000),
      version,
      readOnly: readOnly !== undefined,
      idField: settings.dataStore.idField,
      ...parts,
      ...(jump && { clock: jump }),
      ...(building !== undefined && { indexing: Math.round(building * 1000) / 1000 }),
    }
  }
}
