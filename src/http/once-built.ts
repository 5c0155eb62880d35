import type { Position } from '../events/event.ts'
import { Refusal } from '../runtime/errors.ts'
import { type ApiResource, wrapRoutes } from './api.ts'

/** Progress of building the store from the journal; undefined when it is complete. */
export type BuildProgress = { readonly position: Position; readonly of: Position } | undefined

/** Makes resources unavailable while the store is being built. */
export function onceBuilt(resources: readonly ApiResource[], building: () => BuildProgress): readonly ApiResource[] {
  return wrapRoutes(resources, (route) => (request, reply) => {
    checkBuilt(building())
    return route(request, reply)
  })
}

export function checkBuilt(building: BuildProgress): void {
  if (!building) return
  const { position, of } = building
  const most = Math.max(position, of)
  throw new Refusal('Unavailable', `The store is being built from the journal; it has ${position} of ${most} events.`)
}
