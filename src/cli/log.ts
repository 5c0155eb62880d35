import { destination, type Logger, pino } from 'pino'
import type { Settings } from '../settings/settings.ts'

interface LogOutput {
  /** Writes to standard error. */
  readonly write: (text: string) => void
  readonly isTerminal: boolean
  readonly hasColours: boolean
}

/** The log of a server, as lines of JSON or as text for people. */
export function openLog(
  { level, format }: Pick<Settings['log'], 'level' | 'format'>,
  { write, isTerminal, hasColours }: LogOutput,
): Logger {
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime }
  if (!isTextFormat(format, isTerminal)) return pino({ ...options, level }, { write })
  // Requests are logged at level debug; the text format shows them at level info as well.
  const showsRequests = level === 'info'
  return pino(
    { ...options, level: showsRequests ? 'debug' : level },
    {
      write(line) {
        const entry = JSON.parse(line) as Entry
        if (entry.level >= INFO || !showsRequests || isRequest(entry)) write(formatEntry(entry, hasColours))
      },
    },
  )
}

export function isTextFormat(format: Settings['log']['format'], isTerminal: boolean): boolean {
  return format === 'text' || (format === 'auto' && isTerminal)
}

/** Writes to standard error. Errors, such as those of a file on a full disk, must not end the server. */
export function standardError(): LogOutput['write'] {
  const stderr = destination({ dest: 2, sync: true, maxLength: WAITING_BYTES })
  stderr.on('error', () => {})
  // SonicBoom tries to write what waits only with a line that it does not drop.
  stderr.on('drop', () => void stderr.write(''))
  return (text) => void stderr.write(text)
}

/** Bytes of lines that wait until they can be written; further lines are lost. */
const WAITING_BYTES = 1024 * 1024

interface Entry {
  readonly level: number
  readonly time: string
  readonly msg?: string
  readonly err?: { readonly message?: string; readonly stack?: string }
  readonly [field: string]: unknown
}

interface RequestEntry extends Entry {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly ms: number
}

const INFO = 30
const WARN = 40
const ERROR = 50

const COLOURS = { grey: 90, red: 31, green: 32, yellow: 33, cyan: 36 }
type Paint = (colour: keyof typeof COLOURS, text: string) => string

function isRequest(entry: Entry): entry is RequestEntry {
  return entry.level < INFO && typeof entry.method === 'string' && typeof entry.status === 'number'
}

/** Formats an entry as one line, with the stack of an error below it. */
export function formatEntry(entry: Entry, hasColours: boolean): string {
  const paint: Paint = (colour, text) => (hasColours ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text)
  const time = paint('grey', new Date(entry.time).toTimeString().slice(0, 8))
  return `${time} ${isRequest(entry) ? formatRequest(entry, paint) : formatMessage(entry, paint)}\n`
}

function formatRequest({ method, path, status, ms }: RequestEntry, paint: Paint): string {
  const colour = status >= 500 ? 'red' : status >= 400 ? 'yellow' : status >= 300 ? 'cyan' : 'green'
  return `${escapeControls(method)} ${escapeControls(path)} ${paint(colour, String(status))} ${paint('grey', `${ms} ms`)}`
}

function formatMessage({ level, time: _, msg = '', err, ...fields }: Entry, paint: Paint): string {
  const label = level >= ERROR ? paint('red', 'error: ') : level >= WARN ? paint('yellow', 'warning: ') : ''
  const texts = Object.entries(fields).map(([name, value]) => paint('grey', `${name}=${formatValue(value)}`))
  const stack = err ? (err.stack ?? err.message ?? '').split('\n').map((line) => `\n${escapeControls(line)}`) : []
  return [label + escapeControls(msg), ...texts].join(' ') + stack.join('')
}

function formatValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return escapeControls(/^\S*$/.test(text) || typeof value !== 'string' ? text : JSON.stringify(text))
}

/** Escapes control characters: text from clients must not control the terminal. */
function escapeControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
