import { HOME_SETTINGS, homeIn } from '../demo/directory.ts'
import type { Migration, RemoteJournal } from '../engine/remote-journal.ts'
import type { Replay } from '../engine/replay-engine.ts'
import { parseInstant } from '../json/instant.ts'
import { mostSimilar } from '../json/similar.ts'
import { isSpeed, SPEEDS } from '../projections/pace.ts'
import { type ParsedFlags, parseFlags } from '../settings/flags.ts'
import { KeySet } from '../settings/key-set.ts'
import { KEYS } from '../settings/keys.ts'
import { mistakesIn } from '../settings/schema.ts'
import { BadSettings, DEFAULT_FILE, journalOf, readSettings, type Settings } from '../settings/settings.ts'
import type { SettingsContext } from '../settings/sources.ts'
import type { BackupOptions } from './backup.ts'
import { type CommandName, commandsWith } from './commands.ts'
import type { RestoreOptions } from './restore.ts'

/**
 * A command other than serving. All but init, repair and migrate only read the journal, which a running server
 * may hold. Repair and commands on the store need a stopped server.
 */
export type CliCommand =
  | { readonly type: 'init'; readonly file: string }
  | {
      readonly type: 'verify'
      readonly file: string
      readonly journal: string
      readonly idField: string
      readonly json: boolean
      /** Compare the store with the journal as well. */
      readonly store: boolean
    }
  | { readonly type: 'repair'; readonly journal: string; readonly from: string }
  | { readonly type: 'compact'; readonly journal: string }
  | { readonly type: 'replay'; readonly journal: string; readonly to: string; readonly out: string }
  | ({ readonly type: 'backup' } & BackupOptions)
  | ({ readonly type: 'restore' } & RestoreOptions)
  | { readonly type: 'migrate'; readonly migrate: Migration }

export type Invocation =
  | { readonly type: 'help'; readonly command: CommandName }
  | { readonly type: 'version' }
  | { readonly type: 'hash-password' }
  /** Makes a home in a directory that does not have one, and serves it with these settings. */
  | { readonly type: 'demo'; readonly settingsIn: (directory: string) => Settings }
  /** With `replay`, serves the past. */
  | { readonly type: 'serve'; readonly settings: Settings; readonly replay: Replay | undefined }
  | { readonly type: 'command'; readonly command: CliCommand }

interface InvocationContext extends SettingsContext {
  /** Without the program and the script. */
  readonly argv: readonly string[]
  readonly remoteJournal: RemoteJournal
}

/**
 * Parses the command line.
 * @throws {BadSettings} with all mistakes.
 */
export function parseInvocation(context: InvocationContext): Invocation {
  const { argv, remoteJournal } = context
  const commands = commandsWith(remoteJournal)
  const [first = '', ...rest] = argv
  const name = Object.hasOwn(commands, first) ? (first as CommandName) : ''
  const mistakes: string[] = []
  const flags = parseFlags(name, commands[name], name === '' ? argv : rest, new KeySet(remoteJournal.keys), mistakes)
  if (mistakes.length === 0 && flags.has('help')) return { type: 'help', command: name }
  if (mistakes.length === 0 && flags.has('version')) return { type: 'version' }
  if (name === 'hash-password') {
    throwIfAny(mistakes)
    return { type: name }
  }
  if (name === 'demo') return parseDemo(flags, context, mistakes)
  if (name === '') checkFile(flags.text('file'), context, mistakes)
  const replay = name === 'replay' ? parseReplay(flags, mistakes) : undefined
  if (name !== '' && !replay) return { type: 'command', command: parseCommand(name, flags, context, mistakes) }
  const settings = readSettings(flags, context, mistakes)
  if (replay) checkLocal(name, settings)
  return { type: 'serve', settings, replay }
}

function checkLocal(command: CommandName, { remote }: Settings): void {
  if (remote) throw new BadSettings([`recollect ${command} needs a journal on disk: Journal.Type must be file.`])
}

function parseDemo(flags: ParsedFlags, context: InvocationContext, mistakes: readonly string[]): Invocation {
  const settingsIn = (directory: string): Settings => {
    const paths: Readonly<Record<string, string>> = homeIn(directory)
    const readText = (path: string): string | undefined =>
      path === paths.settings ? HOME_SETTINGS : context.readText(path)
    const text = (flag: string): string | undefined => paths[flag] ?? flags.text(flag)
    const settings = readSettings({ ...flags, text }, { ...context, readText }, [...mistakes])
    checkLocal('demo', settings)
    return settings
  }
  // Mistakes are reported before a directory is created.
  settingsIn(context.absolute('.'))
  return { type: 'demo', settingsIn }
}

function parseCommand(
  name: CliCommand['type'],
  flags: ParsedFlags,
  { absolute, remoteJournal }: InvocationContext,
  mistakes: string[],
): CliCommand {
  if (name === 'migrate') return { type: name, migrate: remoteJournal.migrate.read(flags, absolute, mistakes) }
  throwIfAny(mistakes)
  const file = absolute(flags.text('file') ?? (name === 'init' ? 'db.json' : DEFAULT_FILE))
  const journal = absolute(flags.text('journal') ?? journalOf(file))
  switch (name) {
    case 'init':
      return { type: name, file }
    case 'verify': {
      const idField = flags.text('id-field') ?? 'id'
      throwIfAny(mistakesIn(KEYS['DataStore.IdField'], idField, 'The flag --id-field'))
      return { type: name, file, journal, idField, json: flags.has('json'), store: flags.has('store') }
    }
    case 'repair':
      return { type: name, journal, from: absolute(flags.text('from') ?? '') }
    case 'compact':
      return { type: name, journal }
    case 'replay':
      return { type: name, journal, to: flags.text('to') ?? '', out: absolute(flags.text('out') ?? '') }
    case 'backup':
      return { type: name, file, journal, to: absolute(flags.text('to') ?? ''), link: flags.has('link') }
    case 'restore':
      return { type: name, file, journal, from: absolute(flags.text('from') ?? ''), to: flags.text('to') }
    default:
      return name satisfies never
  }
}

function throwIfAny(mistakes: readonly string[]): void {
  if (mistakes.length > 0) throw new BadSettings(mistakes)
}

/** Otherwise a misspelt command or a URL would be taken for the name of a new data file. */
function checkFile(file: string | undefined, context: InvocationContext, mistakes: string[]): void {
  const { absolute, readText, remoteJournal } = context
  if (file === undefined) return
  if (/^[a-z]+:\/\//i.test(file)) mistakes.push('The data file must be a path, not a URL: download it first.')
  if (/[./]/.test(file)) return
  const similar =
    mostSimilar(file, Object.keys(commandsWith(remoteJournal))) ?? mostSimilar(`--${file}`, ['--help', '--version'])
  if (similar === undefined || readText(absolute(file)) !== undefined) return
  const hint =
    similar === file
      ? `The command ${file} comes before all flags.`
      : `There is no command ${JSON.stringify(file)}; did you mean ${similar}?`
  mistakes.push(`${hint} A data file of this name is ./${file}`)
}

/** The flags of a replay that is served; undefined when it writes a file, or on mistakes. */
function parseReplay(flags: ParsedFlags, mistakes: string[]): Replay | undefined {
  const isFile = flags.has('to') || flags.has('out')
  const isServer = flags.has('from') || flags.has('speed')
  if (isFile && isServer) {
    throw new BadSettings(['recollect replay writes a file, with --to and --out, or serves, with --from: not both.'])
  }
  if (!isServer) {
    for (const flag of ['to', 'out']) if (!flags.has(flag)) mistakes.push(`recollect replay needs --${flag}.`)
    if (!isFile) mistakes.push('To serve the past, recollect replay needs --from.')
    return undefined
  }
  const { from, speed } = { from: flags.text('from'), speed: flags.text('speed') ?? String(SPEEDS.least) }
  if (!flags.has('from')) mistakes.push('recollect replay needs --from to serve the past from there.')
  else if (from !== undefined && !/^\d{1,15}$/.test(from) && !parseInstant(from)) {
    mistakes.push(`--from must be a position or an ISO 8601 date-time, not ${JSON.stringify(from)}.`)
  }
  if (!/^\d+(\.\d+)?$/.test(speed) || !isSpeed(Number(speed))) {
    mistakes.push(`--speed must be a number from ${SPEEDS.least} to ${SPEEDS.most}, not ${JSON.stringify(speed)}.`)
  }
  if (flags.has('accept-journal')) {
    mistakes.push('recollect replay does not take --accept-journal: it looks at no data file.')
  }
  return { from: from ?? '', speed: Number(speed) }
}
