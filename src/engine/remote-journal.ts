import type { Position } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import type { CommandSyntax, ParsedFlags } from '../settings/flags.ts'
import type { Settings } from '../settings/settings.ts'
import type { RemoteSettings } from '../settings/sources.ts'
import type { EngineDependencies } from './dependencies.ts'
import type { Engine } from './engine.ts'

/**
 * A journal that is not in local files. All that the server knows of it is this, which main.ts and library/index.ts
 * pass on: its settings, its engine, and the command that copies a journal there and back.
 */
export interface RemoteJournal extends RemoteSettings {
  /** Called if `read` returned the settings of the journal, which are `settings.remote`. */
  open(settings: Settings, dependencies: EngineDependencies): Promise<Engine>
  readonly migrate: {
    readonly syntax: CommandSyntax
    /** @throws {BadSettings} with all mistakes in the flags. */
    read(flags: ParsedFlags, absolute: (path: string) => string, mistakes: string[]): Migration
  }
}

/** Copies a journal completely and unchanged. Resumes after an interruption. */
export type Migration = (files: Files, progress: MigrationProgress) => Promise<MigrationResult>

/** Called with the number of events copied and the total. */
export type MigrationProgress = (done: number, of: number) => void

export interface MigrationResult {
  /** The journal's UUID. */
  readonly id: string
  /** Position of the last event. */
  readonly head: Position
}
