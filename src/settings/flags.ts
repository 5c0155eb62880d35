import minimist from 'minimist'
import { mostSimilar } from '../json/similar.ts'
import type { JsonValue } from '../json/value.ts'
import { type KeyName, type Keys, SCHEMAS } from './keys.ts'
import type { SettingsSource } from './sources.ts'

/** Flags of json-server and FakeServer that have another name here. */
const INSTEAD: Readonly<Record<string, string>> = {
  '--config': '--settings',
  '-c': '--settings',
  '--delay': '--Simulate.Delay.Enabled',
  '-d': '--Simulate.Delay.Enabled',
  '--id': '--DataStore.IdField',
  '-i': '--DataStore.IdField',
  '--nc': '--Cors.Origins',
  '--no-cors': '--Cors.Origins',
  '--quiet': '--Log.Level',
  '-q': '--Log.Level',
  '--ro': '--read-only',
  '--serve': '--static',
}

export interface FlagSyntax {
  /** The placeholder of its value; undefined for a switch. */
  readonly value?: string
  /** The one-letter form. */
  readonly short?: string
  /** The setting that the flag sets; a switch sets it to `true`. */
  readonly setting?: KeyName
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
  keys: Keys,
  mistakes: string[],
): ParsedFlags {
  const settings = command.takesSettings ? Object.keys(keys) : []
  const schemas = command.takesSettings ? argv.flatMap((one) => /^--(Api\.Schemas\.[^=]+)/.exec(one)?.[1] ?? []) : []
  const complain = (mistake: string): void => {
    if (!mistakes.includes(mistake)) mistakes.push(mistake)
  }
  const parsed = parse(name, command, argv, [settings, schemas], complain)
  const givenAs = (path: string): unknown =>
    path.split('.').reduce<unknown>((inner, part) => (inner as Record<string, unknown>)?.[part], parsed)
  const textsOf = (names: readonly string[]): Map<string, string> => {
    const texts = new Map<string, string>()
    for (const one of names) {
      const value = givenAs(one)
      if (typeof value === 'string' && value !== '') texts.set(one, value)
      else if (Array.isArray(value)) complain(`The flag --${one} is given more than once.`)
      else if (value !== undefined) complain(`The flag --${one} needs a value.`)
    }
    return texts
  }

  const { valued, switches } = namesIn(command)
  const entries: Map<string, JsonValue> = textsOf(settings)
  const texts = textsOf(valued)
  for (const one of switches) {
    const isBoolean = typeof parsed[one] === 'boolean' && !argv.some((argument) => argument.startsWith(`--${one}=`))
    if (!isBoolean) complain(`The flag --${one} has no value.`)
  }
  for (const [one, { setting }] of Object.entries(command.flags)) {
    const value = parsed[one] === true ? 'true' : texts.get(one)
    if (setting === undefined || value === undefined) continue
    if (entries.has(setting)) complain(`--${one} stands for --${setting}; give one of them.`)
    entries.set(setting, value)
  }
  const [file, ...others] = parsed._
  if (file !== undefined && !command.takesFile) others.unshift(file)
  else if (file !== undefined && givenAs('file') !== undefined) {
    complain(`The data file is given twice: ${JSON.stringify(file)}, and --file.`)
  } else if (file !== undefined) texts.set('file', file)
  for (const other of others) complain(`Unexpected argument ${JSON.stringify(other)}.`)
  for (const one of command.needs ?? []) {
    if (givenAs(one) === undefined && parsed.help !== true) complain(`recollect ${name} needs --${one}.`)
  }
  return {
    isText: true,
    where: 'flag --',
    entries,
    schemas: new Map([...textsOf(schemas)].map(([flag, path]) => [flag.slice(SCHEMAS.length + 1), path])),
    text: (flag) => texts.get(flag),
    has: (flag) => parsed[flag] === true || (valued.includes(flag) && givenAs(flag) !== undefined),
  }
}

function namesIn({ flags }: CommandSyntax): {
  readonly valued: readonly string[]
  readonly switches: readonly string[]
} {
  const names = Object.keys(flags)
  const isSwitch = (name: string): boolean => flags[name]?.value === undefined
  return { valued: names.filter((name) => !isSwitch(name)), switches: names.filter(isSwitch) }
}

function parse(
  name: string,
  command: CommandSyntax,
  argv: readonly string[],
  [settings, schemas]: readonly [readonly string[], readonly string[]],
  complain: (mistake: string) => void,
): minimist.ParsedArgs {
  const { valued, switches } = namesIn(command)
  const unknown = (argument: string): void => {
    const given = argument.replace(/=.*/s, '')
    const known = [...valued, ...switches, ...settings].map((flag) => `--${flag}`)
    const instead = Object.hasOwn(INSTEAD, given) ? INSTEAD[given] : undefined
    const similar = known.find((flag) => flag === instead) ?? mostSimilar(given, known)
    const hint =
      similar === undefined ? `${`recollect ${name}`.trim()} --help lists the known ones.` : `did you mean ${similar}?`
    complain(`Unknown flag ${given}; ${hint}`)
  }
  // minimist would read these as known flags with the value false.
  const negated = [...valued, ...switches].map((flag) => `--no-${flag}`)
  for (const argument of argv) if (negated.includes(argument)) unknown(argument)
  const short = Object.entries(command.flags).flatMap(([flag, one]) =>
    one.short === undefined ? [] : [[flag, one.short]],
  )
  return minimist(
    argv.filter((argument) => !negated.includes(argument)),
    {
      // Without `_`, minimist would turn a file named 007 into the number 7.
      string: ['_', ...valued, ...settings, ...schemas],
      boolean: [...switches],
      alias: Object.fromEntries(short),
      unknown: (argument) => {
        if (!argument.startsWith('-')) return true
        unknown(argument)
        return false
      },
    },
  )
}
