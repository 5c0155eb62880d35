import type { CommandSyntax, FlagSyntax } from '../settings/flags.ts'
import { KEY_NAMES, KEYS, SCHEMAS, SCHEMAS_TEXT, shownDefault } from '../settings/keys.ts'
import { COMMANDS, type CommandName } from './commands.ts'

/** The text of `recollect <name> --help`. */
export function helpText(name: CommandName): string {
  const command: CommandSyntax = COMMANDS[name]
  const words = ['recollect', name, command.takesFile && '[FILE]', '[flags]'].filter((word) => word)
  const parts = [command.text, `Usage: ${words.join(' ')}`]
  if (name === '') parts.push(commandsText())
  parts.push(linesOf(Object.entries(command.flags).map(rowOf)))
  if (command.takesSettings) parts.push(SETTINGS_TITLE, linesOf(settingRows()))
  return `${parts.join('\n\n')}\n`
}

const SETTINGS_TITLE = 'Settings, also in the configuration file and as environment variables (Section__Key):'

function commandsText(): string {
  const others = Object.entries(COMMANDS).filter(([name]) => name !== '')
  const rows = others.map(([name, { text }]) => [`recollect ${name}`, text] as const)
  return `Other commands; each has a --help of its own:\n\n${linesOf(rows)}`
}

function rowOf([name, { value, short, text, default: initial }]: [string, FlagSyntax]): readonly [string, string] {
  const flag = [...(short === undefined ? [] : [`-${short}`]), `--${name}`].join(', ')
  return [value === undefined ? flag : `${flag} ${value}`, initial === undefined ? text : `${text} (${initial})`]
}

function settingRows(): readonly (readonly [string, string])[] {
  const rows = KEY_NAMES.map((name) => {
    const { type, text } = KEYS[name]
    return [`--${name} <${type}>`, `${text} (${shownDefault(name)})`] as const
  })
  return [...rows, [`--${SCHEMAS}.<collection> <path>`, `${SCHEMAS_TEXT} (none)`]]
}

function linesOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
