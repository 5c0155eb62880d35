import minimist from 'minimist'
import { BadSettings, DEFAULT_FILE, journalOf } from '../settings.ts'

/** A command beside serving. Each only reads the journal, also one that a running server holds. */
export type CliCommand =
  | { readonly type: 'verify'; readonly file: string; readonly journal: string; readonly json: boolean }
  | {
      readonly type: 'replay'
      readonly file: string
      readonly journal: string
      readonly to: string
      readonly out: string
    }
  | { readonly type: 'backup'; readonly file: string; readonly journal: string; readonly out: string }

const FLAGS: Readonly<Record<CliCommand['type'], readonly string[]>> = {
  verify: ['file', 'journal'],
  replay: ['file', 'journal', 'to', 'out'],
  backup: ['file', 'journal', 'out'],
}
const NEEDED = ['to', 'out']

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
  const switches = type === 'verify' ? ['json'] : []
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
  if (mistakes.length > 0) throw new BadSettings(mistakes)
  const file = absolute(String(parsed.file ?? DEFAULT_FILE))
  const journal = parsed.journal === undefined ? journalOf(file) : absolute(String(parsed.journal))
  switch (type) {
    case 'verify':
      return { type, file, journal, json: parsed.json === true }
    case 'replay':
      return { type, file, journal, to: String(parsed.to), out: absolute(String(parsed.out)) }
    case 'backup':
      return { type, file, journal, out: absolute(String(parsed.out)) }
    default:
      return type satisfies never
  }
}
