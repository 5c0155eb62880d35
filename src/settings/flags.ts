import minimist from 'minimist'
import type { JsonValue } from '../json/value.ts'
import { KEY_NAMES, type KeyName, SCHEMAS } from './keys.ts'
import { mostSimilar } from './similar.ts'
import type { Source } from './sources.ts'

/** The description of a flag. */
export interface Flag {
  /** The placeholder of its value; a switch has none. */
  readonly value?: string
  /** Its one letter. */
  readonly short?: string
  /** The setting that it stands for: a switch for `true`. */
  readonly setting?: KeyName
  /** What it does, in one line. */
  readonly text: string
  readonly default?: string
}

/** What a command takes. */
export interface Command {
  /** What it does, in one line. */
  readonly text: string
  readonly flags: Readonly<Record<string, Flag>>
  /** Flags without which it does nothing. */
  readonly needs?: readonly string[]
  /** Takes the data file as an argument, too. */
  readonly takesFile?: true
  /** Takes a flag for each setting. */
  readonly takesSettings?: true
}

/** The arguments of a command. */
export interface Flags extends Source {
  /** The value of a flag; undefined when it is not given. */
  text(name: string): string | undefined
  /** Whether a switch or a flag is given, if only without its value. */
  has(name: string): boolean
}

/** Reads the arguments of a command; `argv` is without its name. */
export function parseFlags(name: string, command: Command, argv: readonly string[], mistakes: string[]): Flags {
  const flags = Object.entries(command.flags)
  const settings = command.takesSettings ? KEY_NAMES : []
  const schemas = command.takesSettings ? argv.flatMap((one) => /^--(Api\.Schemas\.[^=]+)/.exec(one)?.[1] ?? []) : []
  const complain = (mistake: string): void => {
    if (!mistakes.includes(mistake)) mistakes.push(mistake)
  }
  const unknown = (argument: string): void => {
    const given = argument.replace(/=.*/s, '')
    const known = [...flags.map(([flag]) => flag), ...settings].map((flag) => `--${flag}`)
    const similar = mostSimilar(given, known)
    const hint =
      similar === undefined ? `${`recollect ${name}`.trim()} --help lists the known ones.` : `did you mean ${similar}?`
    complain(`Unknown flag ${given}; ${hint}`)
  }
  const parsed = minimist([...argv], {
    // Without `_`, a file that is called 007 would be 7.
    string: ['_', ...flags.flatMap(([flag, { value }]) => (value === undefined ? [] : flag)), ...settings, ...schemas],
    boolean: flags.flatMap(([flag, { value }]) => (value === undefined ? flag : [])),
    alias: Object.fromEntries(flags.flatMap(([flag, { short }]) => (short === undefined ? [] : [[flag, short]]))),
    unknown: (argument) => {
      if (!argument.startsWith('-')) return true
      unknown(argument)
      return false
    },
  })
  const givenAs = (path: string): unknown =>
    path.split('.').reduce<unknown>((inner, part) => (inner as Record<string, unknown>)?.[part], parsed)
  const textOf = (flag: string): string | undefined => {
    const value = givenAs(flag)
    if (value === undefined) return undefined
    if (typeof value === 'string' && value !== '') return value
    complain(`The flag --${flag} ${Array.isArray(value) ? 'is given more than once' : 'needs a value'}.`)
    return undefined
  }

  const given = new Map<string, string>()
  const switches = new Set<string>()
  const entries = new Map<KeyName, JsonValue>()
  for (const setting of settings) {
    const value = textOf(setting)
    if (value !== undefined) entries.set(setting, value)
  }
  for (const [flag, { value, setting }] of flags) {
    if (argv.includes(`--no-${flag}`)) unknown(`--no-${flag}`)
    else if (value !== undefined) {
      const text = textOf(flag)
      if (text !== undefined) given.set(flag, text)
    } else if (typeof parsed[flag] !== 'boolean' || argv.some((one) => one.startsWith(`--${flag}=`))) {
      complain(`The flag --${flag} has no value.`)
    } else if (parsed[flag]) switches.add(flag)
    if (setting === undefined || !(given.has(flag) || switches.has(flag))) continue
    if (entries.has(setting)) complain(`--${flag} stands for --${setting}; give one of them.`)
    entries.set(setting, given.get(flag) ?? 'true')
  }
  const [file, ...others] = parsed._
  if (file !== undefined && !command.takesFile) others.unshift(file)
  else if (file !== undefined && givenAs('file') !== undefined)
    complain(`The data file is given twice: ${JSON.stringify(file)}, and --file.`)
  else if (file !== undefined) given.set('file', file)
  for (const other of others) complain(`Unexpected argument ${JSON.stringify(other)}.`)
  for (const flag of command.needs ?? []) {
    if (givenAs(flag) === undefined && !switches.has('help')) complain(`recollect ${name} needs --${flag}.`)
  }
  const schemaEntries = schemas.flatMap((flag): [string, string][] => {
    const value = textOf(flag)
    return value === undefined ? [] : [[flag.slice(SCHEMAS.length + 1), value]]
  })
  return {
    isText: true,
    where: 'flag --',
    entries,
    schemas: new Map(schemaEntries),
    text: (flag) => given.get(flag),
    has: (flag) => switches.has(flag) || (command.flags[flag]?.value !== undefined && givenAs(flag) !== undefined),
  }
}
