import minimist from 'minimist'
import { BadSettings, clusterOf, DEFAULT_FILE, journalOf } from '../settings.ts'
import type { Migration } from './migrate.ts'

/**
 * A command beside serving. All but migrate only read the journal, also one that a running server holds; what is about the
 * store needs a server that has ended.
 */
export type CliCommand =
  | {
      readonly type: 'verify'
      readonly file: string
      readonly journal: string
      readonly json: boolean
      /** The store is compared with the journal, too. */
      readonly store: boolean
    }
  | { readonly type: 'compact'; readonly journal: string }
  | {
      readonly type: 'replay'
      readonly file: string
      readonly journal: string
      readonly to: string
      readonly out: string
    }
  | { readonly type: 'backup'; readonly file: string; readonly journal: string; readonly out: string }
  | { readonly type: 'migrate'; readonly migration: Migration }

const FLAGS: Readonly<Record<CliCommand['type'], readonly string[]>> = {
  verify: ['file', 'journal'],
  compact: ['file', 'journal'],
  replay: ['file', 'journal', 'to', 'out'],
  backup: ['file', 'journal', 'out'],
  migrate: ['from', 'to', 'stream', 'replicas', 'credentials'],
}
const NEEDED = ['from', 'to', 'out']

export function isCliCommand(name: string | undefined): name is CliCommand['type'] {
  return name !== undefined && Object.hasOwn(FLAGS, name)
}

/** Reads a command's flags; `argv` is without the command's name. Throws BadSettings with every mistake. */
export function parseCliCommand(
  type: CliCommand['type'],
  argv: readonly string[],
  absolute: (path: string) => string,
): CliCommand {
  const mistakes: string[] = []
  const flags = FLAGS[type]
  const switches = type === 'verify' ? ['json', 'store'] : []
  const unknown = (argument: string): false => {
    const known = [...flags, ...switches].map((flag) => `--${flag}`).join(', ')
    mistakes.push(`recollect ${type} does not know ${argument}; it takes ${known}.`)
    return false
  }
  const parsed = minimist([...argv], { string: [...flags], boolean: switches, unknown }) as Readonly<
    Record<string, unknown>
  > & { readonly _: readonly string[] }
  // What follows a lone -- is not asked about.
  for (const argument of parsed._) unknown(argument)
  for (const flag of flags) {
    const value = parsed[flag]
    if (Array.isArray(value)) mistakes.push(`The flag --${flag} is given more than once.`)
    else if (value !== undefined && (typeof value !== 'string' || value === ''))
      mistakes.push(`The flag --${flag} needs a value.`)
    else if (value === undefined && NEEDED.includes(flag)) mistakes.push(`recollect ${type} needs --${flag}.`)
  }
  if (type === 'replay' && parsed.to === undefined && parsed.out === undefined) {
    mistakes.push('To serve the past, recollect replay needs --from.')
  }
  if (type === 'migrate') return { type, migration: migrationOf(parsed, absolute, mistakes) }
  if (mistakes.length > 0) throw new BadSettings(mistakes)
  const file = absolute(String(parsed.file ?? DEFAULT_FILE))
  const journal = parsed.journal === undefined ? journalOf(file) : absolute(String(parsed.journal))
  switch (type) {
    case 'verify':
      return { type, file, journal, json: parsed.json === true, store: parsed.store === true }
    case 'compact':
      return { type, journal }
    case 'replay':
      return { type, file, journal, to: String(parsed.to), out: absolute(String(parsed.out)) }
    case 'backup':
      return { type, file, journal, out: absolute(String(parsed.out)) }
    default:
      return type satisfies never
  }
}

function migrationOf(
  parsed: Readonly<Record<string, unknown>>,
  absolute: (path: string) => string,
  mistakes: string[],
): Migration {
  const text = (flag: string, otherwise: string): string => String(parsed[flag] ?? otherwise)
  const [from, to] = [text('from', ''), text('to', '')]
  const isStream = (place: string): boolean => /^(nats|tls):\/\//.test(place)
  if (mistakes.length === 0 && isStream(from) === isStream(to)) {
    mistakes.push('recollect migrate moves from a directory to nats://…, or back.')
  }
  const replicas = text('replicas', '0')
  if (!/^\d$/.test(replicas)) mistakes.push('The flag --replicas must be a number, such as 3.')
  if (mistakes.length > 0) throw new BadSettings(mistakes)
  const servers = (isStream(from) ? from : to).split(',').map((server) => server.trim())
  const place = clusterOf(
    servers,
    text('stream', 'recollect'),
    Number(replicas),
    text('credentials', ''),
    absolute,
    mistakes,
  )
  if (mistakes.length > 0) throw new BadSettings(mistakes)
  return isStream(from) ? { from: place, to: absolute(to) } : { from: absolute(from), to: place }
}
