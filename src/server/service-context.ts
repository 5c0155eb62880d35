import type { Engine } from '../engine/engine.ts'
import { RequestTimes } from '../http/pipeline.ts'
import { simulationWarnings } from '../http/simulation.ts'
import { Arrivals } from '../projections/arrivals.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import type { Settings } from '../settings/settings.ts'
import { ClockWatch } from './clock-watch.ts'
import { openGate, warningsOf } from './open-gate.ts'
import { type ServiceDependencies, shareDescriptors } from './platform.ts'
import { SettingsReload } from './settings-reload.ts'
import { ShadowedCollections } from './shadowed-collections.ts'

/** Shared by routes, sockets and the HTTP server. */
export type ServiceContext = Awaited<ReturnType<typeof openContext>>

const READ_ONLY = 'This server is read-only (Api.ReadOnly): nothing can be written to it.'

export async function openContext(engine: Engine, settings: Settings, dependencies: ServiceDependencies) {
  const readOnly = engine.readOnly ?? (settings.api.readOnly ? READ_ONLY : undefined)
  const limitedLog = new LimitedLog(dependencies.log, dependencies.elapsedMs)
  const gate = await openGate(settings, engine.tokens, { ...dependencies, log: limitedLog })
  const { readSettings: read } = dependencies
  const isAtRoot = settings.api.compatibility === 'json-server'
  const shadowed = isAtRoot ? new ShadowedCollections(engine.views, limitedLog) : undefined
  if (shadowed) engine.bus.add({ shadowed })
  const settingsReload = new SettingsReload({ settings, read, gate, schemas: engine.schemas, log: limitedLog })
  return {
    engine,
    settings,
    dependencies,
    gate,
    descriptors: shareDescriptors(dependencies.descriptors),
    settingsReload,
    /** For the operator: also in `/health` for admins. */
    warnings: (): readonly string[] => [
      ...warningsOf(settingsReload.settings, readOnly !== undefined),
      ...simulationWarnings(settings.simulation),
      ...(shadowed?.warnings() ?? []),
      ...engine.warnings,
    ],
    /** The message for attempts to write, if nothing can be written. */
    readOnly,
    arrivals: new Arrivals(),
    requestTimes: new RequestTimes(),
    clock: new ClockWatch({ ...dependencies, log: limitedLog }, engine.journal.timeMs),
    /** The log for what may be repeated without end. */
    limitedLog,
  }
}
