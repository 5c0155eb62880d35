import type { Gate } from '../access/gate.ts'
import type { Engine } from '../engine/engine.ts'
import { RequestTimes } from '../http/pipeline.ts'
import { simulationWarnings } from '../http/simulation.ts'
import { Arrivals } from '../projections/arrivals.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import type { Settings } from '../settings/settings.ts'
import { ClockWatch } from './clock-watch.ts'
import { openGate, warningsOf } from './open-gate.ts'
import { type Descriptors, type ServiceDependencies, shareDescriptors } from './platform.ts'
import { Resets } from './resets.ts'
import { SettingsReload } from './settings-reload.ts'

/** Shared by routes, sockets and the HTTP server. */
export interface ServiceContext {
  readonly engine: Engine
  readonly settings: Settings
  readonly dependencies: ServiceDependencies
  readonly gate: Gate
  readonly descriptors: Descriptors
  readonly settingsReload: SettingsReload
  /** For the operator: also in `/health` for admins. */
  readonly warnings: () => readonly string[]
  /** The message for attempts to write, if nothing can be written. */
  readonly readOnly: string | undefined
  readonly resets: Resets
  readonly arrivals: Arrivals
  readonly requestTimes: RequestTimes
  readonly clock: ClockWatch
  /** The log for what may be repeated without end. */
  readonly limitedLog: LimitedLog
}

const READ_ONLY = 'This server is read-only (Api.ReadOnly): nothing can be written to it.'

export async function openContext(
  engine: Engine,
  settings: Settings,
  dependencies: ServiceDependencies,
): Promise<ServiceContext> {
  const readOnly = engine.readOnly ?? (settings.api.readOnly ? READ_ONLY : undefined)
  const limitedLog = new LimitedLog(dependencies.log, dependencies.elapsedMs)
  const gate = await openGate(settings, engine.tokens, { ...dependencies, log: limitedLog })
  const { readSettings: read } = dependencies
  const settingsReload = new SettingsReload({ settings, read, gate, schemas: engine.schemas, log: limitedLog })
  return {
    engine,
    settings,
    dependencies,
    gate,
    descriptors: shareDescriptors(dependencies.descriptors),
    settingsReload,
    warnings: () => [
      ...warningsOf(settingsReload.settings, readOnly !== undefined),
      ...simulationWarnings(settings.simulation),
      ...engine.warnings,
    ],
    readOnly,
    resets: new Resets(engine, settings),
    arrivals: new Arrivals(),
    requestTimes: new RequestTimes(),
    clock: new ClockWatch({ ...dependencies, log: limitedLog }, engine.journal.timeMs),
    limitedLog,
  }
}
