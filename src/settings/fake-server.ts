import type { KeyName } from './keys.ts'

/** Keys of FakeServer's appsettings.json that have another name here. */
export const KEY_ALIASES: Readonly<Record<string, KeyName>> = { 'DataStore.EagerDataReload': 'Common.EagerDataReload' }

/** Sections of FakeServer that the server ignores, with the setting to use instead. */
export const IGNORED_SECTIONS: Readonly<Record<string, string>> = {
  AllowedHosts: 'Http.Hosts names the hosts.',
  Caching: 'ETags are always sent.',
  CustomResponse: 'Koa middleware changes responses (docs/library.md).',
  Jobs: 'There are no jobs: writes take milliseconds.',
  Logging: 'Log.Level sets the level.',
  Serilog: 'Log.Level and Log.Format set the log.',
}
