import type { RemoteJournal } from '../engine/remote-journal.ts'
import type { CommandSyntax, FlagSyntax } from '../settings/flags.ts'
import { KeySet } from '../settings/key-set.ts'
import { DEFAULT_FILE } from '../settings/settings.ts'
import { DEFAULT_URL } from '../settings/urls.ts'

const HELP_FLAG: Readonly<Record<string, FlagSyntax>> = { help: { short: 'h', text: 'show this help' } }

const PATH_FLAGS: Readonly<Record<string, FlagSyntax>> = {
  file: { value: '<path>', text: 'the data file, as FILE', default: DEFAULT_FILE },
  journal: { value: '<path>', text: "the journal's directory", default: '<file without .json>.journal' },
}

const SERVER_FLAGS = {
  ...PATH_FLAGS,
  port: {
    value: '<number>',
    short: 'p',
    text: 'the port to listen on; 0: a free one',
    default: '57602, or 3000 with --json-server',
  },
  host: {
    value: '<name>',
    short: 'H',
    text: 'the host name or address to listen on; * for every interface',
    default: 'localhost',
  },
  urls: {
    value: '<url>[;<url>]',
    text: 'listening addresses, in place of --port and --host; the hosts * and + mean every interface',
    default: DEFAULT_URL,
  },
  watch: {
    short: 'w',
    sets: (value) => ({ 'Common.EagerDataReload': value }),
    text: 'merge edits of the data file as soon as it changes',
  },
  'read-only': {
    sets: (value) => ({ 'Api.ReadOnly': value }),
    text: 'refuse all writes and merge no edits of the data file',
  },
  'json-server': {
    sets: () => ({ 'Api.Compatibility': 'json-server' }),
    text: 'behave as json-server does where the two differ; the port, --watch and other defaults change with it',
  },
  id: {
    value: '<name>',
    short: 'i',
    sets: (value) => ({ 'DataStore.IdField': value }),
    text: 'the field of an item that is its id',
    default: 'id',
  },
  delay: {
    value: '<ms>',
    short: 'd',
    sets: (value) => ({
      'Simulate.Delay.Enabled': 'true',
      'Simulate.Delay.MinMs': value,
      'Simulate.Delay.MaxMs': value,
    }),
    text: 'answer requests below /api late',
  },
  routes: {
    value: '<path>',
    short: 'r',
    sets: (value) => ({ 'Http.Routes': value }),
    text: 'a JSON file of other addresses, as {"/blog/*": "/api/$1"}',
  },
  foreignKeySuffix: {
    value: '<text>',
    sets: (value) => ({ 'Api.ForeignKeySuffix': value }),
    text: 'the end of the field that refers to another item, as in postId',
    default: 'Id',
  },
  snapshots: {
    value: '<directory>',
    short: 'S',
    text: 'where s and Enter, typed into the terminal, write the state as a data file',
  },
  static: {
    value: '<path>',
    short: 's',
    sets: (value) => ({ 'Http.Static': value }),
    text: 'the directory of files that are served beside the packaged pages',
    default: 'wwwroot, or public with --json-server',
  },
  settings: { value: '<path>', text: 'the configuration file', default: 'appsettings.json' },
  'accept-journal': { text: 'start although the journal does not fit the data file; another journal is set aside' },
} as const satisfies Readonly<Record<string, FlagSyntax>>

/** The commands, without that of a remote journal. `--help` and the checks of arguments are generated from here. */
const COMMANDS = {
  '': {
    text: 'Serves the collections of a JSON file over REST and remembers every change.',
    flags: { ...SERVER_FLAGS, version: { short: 'v', text: 'show the version' }, ...HELP_FLAG },
    takesFile: true,
    takesSettings: true,
  },
  demo: {
    text: 'Makes a home of six sensors, with a past of 14 days, in a new temporary directory, and serves it.',
    flags: {
      port: { ...SERVER_FLAGS.port, default: '57602' },
      host: SERVER_FLAGS.host,
      static: { ...SERVER_FLAGS.static, default: 'wwwroot' },
      ...HELP_FLAG,
    },
  },
  init: {
    text: 'Writes a sample data file, db.json unless it is named. An existing file is not overwritten.',
    flags: { file: { value: '<path>', text: 'the data file, as FILE', default: 'db.json' }, ...HELP_FLAG },
    takesFile: true,
  },
  verify: {
    text: 'Checks the whole journal and compares the data file with it. Only reads, also while a server is running.',
    flags: {
      ...PATH_FLAGS,
      json: { text: 'print the result as JSON' },
      store: { text: 'compare the store, too; the server must have ended' },
      'id-field': { value: '<name>', text: 'the field of the id, as DataStore.IdField', default: 'id' },
      ...HELP_FLAG,
    },
    takesFile: true,
  },
  repair: {
    text: 'Replaces what is damaged in the journal by the records of a backup or another copy. The server must have ended.',
    flags: {
      from: { value: '<path>', text: 'a backup, or the directory of another copy of the journal; it is only read' },
      ...PATH_FLAGS,
      ...HELP_FLAG,
    },
    needs: ['from'],
    takesFile: true,
  },
  compact: {
    text: 'Makes the file of the store smaller. The server must have ended.',
    flags: { ...PATH_FLAGS, ...HELP_FLAG },
    takesFile: true,
  },
  replay: {
    text: 'Writes a past state as a data file (--to, --out), or serves the past (--from). Only reads the journal.',
    flags: {
      to: { value: '<position|time>', text: 'the state to write: after this event, or at this time' },
      out: { value: '<path>', text: 'the file to write; an existing one is not overwritten' },
      from: { value: '<position|time>', text: 'where the past that is served begins' },
      speed: { value: '<1 to 1000>', text: 'how many times as fast it goes on', default: '1' },
      ...SERVER_FLAGS,
      ...HELP_FLAG,
    },
    takesFile: true,
    takesSettings: true,
  },
  backup: {
    text: 'Copies what is new in the journal to a backup. Only reads the journal, also while a server is running.',
    flags: {
      to: { value: '<directory>', text: 'the backup; the first one needs a new or empty directory' },
      link: { text: 'link full segments instead of copying them; damage of the disk then affects both' },
      ...PATH_FLAGS,
      ...HELP_FLAG,
    },
    needs: ['to'],
    takesFile: true,
  },
  restore: {
    text: 'Makes a new journal and a data file from a backup. Overwrites nothing.',
    flags: {
      from: { value: '<directory>', text: 'the backup' },
      to: {
        value: '<position|time>',
        text: 'the last event: this one, or the last one up to this time',
        default: 'all',
      },
      ...PATH_FLAGS,
      ...HELP_FLAG,
    },
    needs: ['from'],
    takesFile: true,
  },
  'hash-password': {
    text: 'Reads a password from the first line of standard input and prints its hash for Authentication.Users.',
    flags: HELP_FLAG,
  },
} as const satisfies Readonly<Record<string, CommandSyntax>>

export type CommandName = keyof typeof COMMANDS | 'migrate'

export function commandsWith({ migrate }: RemoteJournal): Readonly<Record<CommandName, CommandSyntax>> {
  return { ...COMMANDS, migrate: { ...migrate.syntax, flags: { ...migrate.syntax.flags, ...HELP_FLAG } } }
}

/** The text of `recollect <name> --help`. */
export function helpText(name: CommandName, remoteJournal: RemoteJournal): string {
  const commands = commandsWith(remoteJournal)
  const command = commands[name]
  const words = ['recollect', name, command.takesFile && '[FILE]', '[flags]'].filter((word) => word)
  const parts = [command.text, `Usage: ${words.join(' ')}`]
  if (name === '') parts.push(commandsText(commands))
  parts.push(inColumns(Object.entries(command.flags).map(flagRow)))
  const settings = new KeySet(remoteJournal.keys).rows()
  const rows = settings.map(([key, type, text, initial]) => [`--${key} <${type}>`, `${text} (${initial})`] as const)
  if (command.takesSettings) parts.push(SETTINGS_TITLE, inColumns(rows))
  return `${parts.join('\n\n')}\n`
}

const SETTINGS_TITLE = 'Settings, also in the configuration file and as environment variables (Section__Key):'

function commandsText(commands: Readonly<Record<string, CommandSyntax>>): string {
  const others = Object.entries(commands).filter(([name]) => name !== '')
  const rows = others.map(([name, { text }]) => [`recollect ${name}`, text] as const)
  return `Other commands; each has a --help of its own:\n\n${inColumns(rows)}`
}

function flagRow([name, { value, short, text, default: initial }]: [string, FlagSyntax]): readonly [string, string] {
  const flag = [...(short === undefined ? [] : [`-${short}`]), `--${name}`].join(', ')
  return [value === undefined ? flag : `${flag} ${value}`, initial === undefined ? text : `${text} (${initial})`]
}

function inColumns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
