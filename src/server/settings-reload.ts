import type { Gate } from '../access/gate.ts'
import type { ItemSchemas } from '../commands/item-schemas.ts'
import type { ReloadedSettings } from '../http/admin.ts'
import { Refusal } from '../runtime/errors.ts'
import { type LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import { Semaphore } from '../runtime/turns.ts'
import { checkAccounts } from '../settings/authentication.ts'
import { BadSettings, type Settings } from '../settings/settings.ts'
import { warningsOf } from './open-gate.ts'

interface SettingsReloadOptions {
  /** The settings that the server started with. */
  readonly settings: Settings
  /** Reads them again. */
  readonly read: () => Settings
  readonly gate: Gate
  /** Undefined if nothing is written, so that no item is checked. */
  readonly schemas: ItemSchemas | undefined
  readonly log: LimitedLog
}

/** Reads users, API keys and schemas again while the server runs. The other settings stay as they were at the start. */
export class SettingsReload {
  readonly #options: SettingsReloadOptions
  readonly #turn = new Semaphore(1)
  #inUse: Settings

  constructor(options: SettingsReloadOptions) {
    this.#options = options
    this.#inUse = options.settings
  }

  /** The settings of the start, with the users, API keys and warnings in use. */
  get settings(): Settings {
    return this.#inUse
  }

  /**
   * Puts everything in place at once. One reload runs at a time.
   * @throws {Refusal} with all mistakes; nothing was changed then.
   */
  reload(): Promise<ReloadedSettings> {
    return this.#turn.run(async () => {
      const { log } = this.#options
      try {
        const reloaded = await this.#reload()
        const level = reloaded.restartRequired.length > 0 ? 'warn' : 'info'
        log[level](reloaded, 'users, API keys and schemas were read again', TEN_IN_TEN_SECONDS)
        return reloaded
      } catch (error) {
        const reason = mistakesOf(error)
        if (!reason) throw error
        log.error({ reason }, 'the settings could not be read again; the earlier ones stay in use', TEN_IN_TEN_SECONDS)
        const faults = reason.map((message) => ({ pointer: '', message }))
        throw new Refusal('Unprocessable', `The earlier settings stay in use. ${reason.join(' ')}`, faults)
      }
    })
  }

  async #reload(): Promise<ReloadedSettings> {
    const { settings, read, gate, schemas, log } = this.#options
    const found = read()
    const { users, apiKeys } = found.authentication
    const authentication = { ...settings.authentication, users, apiKeys }
    const mistakes: string[] = []
    checkAccounts(authentication, mistakes)
    if (mistakes.length > 0) throw new BadSettings(mistakes)
    const putSchemas = await schemas?.prepare(found.api.schemas)
    const putAccounts = await gate.access?.prepare(users, apiKeys)
    putSchemas?.()
    putAccounts?.()
    const earlier = warningsOf(this.#inUse)
    this.#inUse = { ...settings, authentication, warnings: found.warnings }
    for (const warning of warningsOf(this.#inUse)) if (!earlier.includes(warning)) log.warn({}, warning)
    return {
      users: gate.access ? users.length : 0,
      apiKeys: gate.access ? apiKeys.length : 0,
      schemas: schemas ? Object.keys(found.api.schemas) : [],
      restartRequired: settings.values.requiringRestart(found.values),
    }
  }
}

/** Undefined for a bug. */
function mistakesOf(error: unknown): readonly string[] | undefined {
  if (error instanceof BadSettings) return error.mistakes
  const isExpected = error instanceof Refusal || (error instanceof Error && 'syscall' in error)
  return isExpected ? error.message.split('\n') : undefined
}
