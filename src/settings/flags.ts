import minimist from 'minimist'
import { mostSimilar } from '../json/similar.ts'
import type { KeySet } from './key-set.ts'
import type { KeyName } from './keys.ts'
import type { SettingsSource } from './sources.ts'

/** Flags of json-server, with the one to use in place of each; undefined: there is none. */
const JSON_SERVER_FLAGS: Readonly<Record<string, string | undefined>> = {
  '--config': '--settings',
  '-c': '--settings',
  '--fks': '--foreignKeySuffix',
  '--middlewares': undefined,
  '-m': undefined,
  '--nc': '--Cors.Origins',
  '--no-cors': '--Cors.Origins',
  '--ng': undefined,
  '--no-gzip': undefined,
  '--quiet': '--Log.Level',
  '-q': '--Log.Level',
  '--ro': '--read-only',
}

/** Flags of FakeServer and of earlier releases that have another name here. */
const INSTEAD: Readonly<Record<string, string>> = { '--serve': '--static', '--out': '--to' }

export interface FlagSyntax {
  /** The placeholder of its value; undefined for a switch. */
  readonly value?: string
  /** The one-letter form. */
  readonly short?: string
  /** The settings that the flag sets. The value of a switch is `true`. */
  readonly sets?: (value: string) => Readonly<Partial<Record<KeyName, string>>>
  /** The description in one line. */
  readonly text: string
  readonly default?: string
}

/** The arguments that a command accepts. */
export interface CommandSyntax {
  readonly text: string
  readonly flags: Readonly<Record<string, FlagSyntax>>
  /** Required flags. */
  readonly needs?: readonly string[]
  /** Accepts the data file as an argument. */
  readonly takesFile?: true
  /** Accepts a flag for each setting. */
  readonly takesSettings?: true
}

export interface ParsedFlags extends SettingsSource {
  /** The value of a flag; undefined if it is missing. */
  text(name: string): string | undefined
  /** Whether a flag is present, with or without a value. */
  has(name: string): boolean
}

/** Parses the arguments of a command; `argv` does not include its name. */
export function parseFlags(
  name: string,
  command: CommandSyntax,
  argv: readonly string[],
  keys: KeySet,
  mistakes: string[],
): ParsedFlags {
  const flags = Object.entries(command.flags)
  const valued = flags.flatMap(([flag, { value }]) => (value === undefined ? [] : [flag]))
  const switches = flags.flatMap(([flag, { value }]) => (value === undefined ? [flag] : []))
  const schemas = argv.flatMap((argument) => /^--(Api\.Schemas\.[^=]+)/.exec(argument)?.[1] ?? [])
  const settings = command.takesSettings ? [...keys.names, ...schemas] : []
  const parsed = parse(argv, flags, [...valued, ...settings], switches, (flag) => {
    mistakes.push(unknownFlag(flag, name, [...valued, ...switches, ...settings]))
  })
  const given = textsOf(settings, parsed, mistakes)
  const entries = new Map(given)
  const texts = textsOf(valued, parsed, mistakes)
  for (const one of switches) {
    const isBoolean = typeof parsed[one] === 'boolean' && !argv.some((argument) => argument.startsWith(`--${one}=`))
    if (!isBoolean) mistakes.push(`The flag --${one} has no value.`)
  }
  const setBy = new Map<string, string>()
  for (const [one, { sets }] of flags) {
    const value = parsed[one] === true ? 'true' : texts.get(one)
    if (!sets || value === undefined) continue
    for (const [setting, text] of Object.entries(sets(value))) {
      if (given.has(setting)) mistakes.push(`--${one} stands for --${setting}; give one of them.`)
      entries.set(setting, text)
      setBy.set(setting, one)
    }
  }
  const [file, ...others] = parsed._
  if (file !== undefined && !command.takesFile) others.unshift(file)
  else if (file !== undefined && parsed.file !== undefined) {
    mistakes.push(`The data file is given twice: ${JSON.stringify(file)}, and --file.`)
  } else if (file !== undefined) texts.set('file', file)
  for (const other of others) mistakes.push(`Unexpected argument ${JSON.stringify(other)}.`)
  const has = (flag: string): boolean => parsed[flag] === true || (valued.includes(flag) && parsed[flag] !== undefined)
  for (const one of command.needs ?? []) {
    if (!has(one) && !has('help')) mistakes.push(`recollect ${name} needs --${one}.`)
  }
  const subject = (setting: string): string => `The flag --${setBy.get(setting) ?? setting}`
  return { isText: true, subject, entries, text: (flag) => texts.get(flag), has }
}

/** The values of the flags that are given. */
function textsOf(names: readonly string[], parsed: minimist.ParsedArgs, mistakes: string[]): Map<string, string> {
  const texts = new Map<string, string>()
  for (const name of names) {
    // minimist makes objects of names with dots.
    const value = name.split('.').reduce<unknown>((inner, part) => (inner as typeof parsed)?.[part], parsed)
    if (typeof value === 'string' && value !== '') texts.set(name, value)
    else if (Array.isArray(value)) mistakes.push(`The flag --${name} is given more than once.`)
    else if (value !== undefined) mistakes.push(`The flag --${name} needs a value.`)
  }
  return texts
}

function parse(
  argv: readonly string[],
  flags: readonly (readonly [string, FlagSyntax])[],
  valued: readonly string[],
  switches: string[],
  unknown: (flag: string) => void,
): minimist.ParsedArgs {
  // minimist would read these as known flags with the value false.
  const negated = flags.map(([flag]) => `--no-${flag}`)
  for (const argument of argv) if (negated.includes(argument)) unknown(argument)
  return minimist(
    withNegativeNumbers(
      argv.filter((argument) => !negated.includes(argument)),
      valued.map((flag) => `--${flag}`),
    ),
    {
      // Without `_`, minimist would turn a file named 007 into the number 7.
      string: ['_', ...valued],
      boolean: switches,
      alias: Object.fromEntries(flags.flatMap(([flag, { short }]) => (short === undefined ? [] : [[flag, short]]))),
      unknown: (argument) => {
        if (!argument.startsWith('-')) return true
        unknown(argument.replace(/=.*/s, ''))
        return false
      },
    },
  )
}

/** minimist would read the number in `--to -1` as a flag, so it becomes `--to=-1`. */
function withNegativeNumbers(argv: readonly string[], valued: readonly string[]): string[] {
  const joined: string[] = []
  for (const argument of argv) {
    const flag = joined.at(-1) ?? ''
    if (/^-\d/.test(argument) && valued.includes(flag)) joined[joined.length - 1] = `${flag}=${argument}`
    else joined.push(argument)
  }
  return joined
}

function unknownFlag(given: string, command: string, names: readonly string[]): string {
  const known = names.map((name) => `--${name}`)
  if (command === '' && Object.hasOwn(JSON_SERVER_FLAGS, given)) {
    const here = JSON_SERVER_FLAGS[given] ?? 'no such flag'
    return `${given} is a flag of json-server. Here there is ${here}; see docs/migrate-from-json-server.md.`
  }
  const similar = known.find((flag) => flag === INSTEAD[given]) ?? mostSimilar(given, known)
  const hint =
    similar === undefined ? `${`recollect ${command}`.trim()} --help lists the known ones.` : `did you mean ${similar}?`
  return `Unknown flag ${given}; ${hint}`
}
