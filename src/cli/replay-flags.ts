import { parseInstant } from '../json/instant.ts'
import { isSpeed, SPEEDS } from '../projections/pace.ts'
import type { Replay } from '../server/replay-engine.ts'
import type { ParsedFlags } from '../settings/flags.ts'
import { BadSettings, type Settings } from '../settings/settings.ts'

/** The flags of a replay that is served; undefined when it writes a file, or on mistakes. */
export function parseReplay(flags: ParsedFlags, mistakes: string[]): Replay | undefined {
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

export function checkReplay({ cluster }: Settings): void {
  if (cluster) throw new BadSettings(['recollect replay needs a journal on disk: Journal.Type must be file.'])
}
