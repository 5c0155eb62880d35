import { parseInstant } from '../json/instant.ts'
import { isSpeed, SPEEDS } from '../projections/pace.ts'
import type { Replay } from '../replay-engine.ts'
import { BadSettings, type Invocation, readSettings, type Surroundings } from '../settings.ts'

export type ReplayInvocation = Exclude<Invocation, { type: 'serve' }> | (ServeInvocation & { readonly replay: Replay })
type ServeInvocation = Extract<Invocation, { type: 'serve' }>

const OWN_FLAGS = ['from', 'speed'] as const
const FILE_FLAGS = ['to', 'out'] as const

/** Whether `recollect replay` is to serve the past, rather than to write it to a file. */
export function isReplayServer(argv: readonly string[]): boolean {
  return has(argv, OWN_FLAGS) || (has(argv, ['urls', 'settings', 'help']) && !has(argv, FILE_FLAGS))
}

/** Reads its flags: those of serving, and its own. Throws BadSettings with every mistake. */
export function parseReplayServer(surroundings: Surroundings): ReplayInvocation {
  const mistakes: string[] = []
  if (has(surroundings.argv, FILE_FLAGS)) {
    throw new BadSettings(['recollect replay writes a file, with --to and --out, or serves, with --from: not both.'])
  }
  const { own, rest } = takeOwn(surroundings.argv, mistakes)
  let invoked: Invocation | undefined
  try {
    invoked = readSettings({ ...surroundings, argv: rest })
    if (invoked.type !== 'serve') return invoked
  } catch (error) {
    if (!(error instanceof BadSettings)) throw error
    mistakes.push(...error.mistakes)
  }
  const { from, speed = String(SPEEDS.least) } = own
  if (from === undefined) {
    if (!has(surroundings.argv, ['from'])) mistakes.push('recollect replay needs --from to serve the past from there.')
  } else if (!/^\d{1,15}$/.test(from) && !parseInstant(from)) {
    mistakes.push(`--from must be a position or an ISO 8601 date-time, not ${JSON.stringify(from)}.`)
  }
  if (!/^\d+(\.\d+)?$/.test(speed) || !isSpeed(Number(speed))) {
    mistakes.push(`--speed must be a number from ${SPEEDS.least} to ${SPEEDS.most}, not ${JSON.stringify(speed)}.`)
  }
  if (has(rest, ['accept-journal'])) {
    mistakes.push('recollect replay does not take --accept-journal: it looks at no data file.')
  }
  if (invoked?.type === 'serve' && invoked.settings.cluster) {
    mistakes.push('recollect replay plays a journal on disk: Journal.Type must be file.')
  }
  if (mistakes.length > 0 || invoked?.type !== 'serve' || from === undefined) throw new BadSettings(mistakes)
  return { ...invoked, replay: { from, speed: Number(speed) } }
}

function has(argv: readonly string[], flags: readonly string[]): boolean {
  return flags.some((flag) => argv.some((argument) => argument === `--${flag}` || argument.startsWith(`--${flag}=`)))
}

/** Parts the command's own flags from the others. */
function takeOwn(
  argv: readonly string[],
  mistakes: string[],
): { readonly own: Readonly<Partial<Record<(typeof OWN_FLAGS)[number], string>>>; readonly rest: readonly string[] } {
  const own: Partial<Record<(typeof OWN_FLAGS)[number], string>> = {}
  const rest: string[] = []
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] as string
    const flag = OWN_FLAGS.find((name) => argument === `--${name}` || argument.startsWith(`--${name}=`))
    if (!flag) {
      rest.push(argument)
      continue
    }
    const isApart = argument === `--${flag}`
    const next = argv[index + 1]
    const value = isApart ? (next?.startsWith('--') ? undefined : next) : argument.slice(flag.length + 3)
    if (isApart && value !== undefined) index++
    if (value === undefined || value === '') mistakes.push(`The flag --${flag} needs a value.`)
    else if (own[flag] !== undefined) mistakes.push(`The flag --${flag} is given more than once.`)
    else own[flag] = value
  }
  return { own, rest }
}
