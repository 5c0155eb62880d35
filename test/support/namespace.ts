import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { DEADLINE_MS } from './deadline.ts'
import type { Scope } from './directory.ts'

/** The direction that a cable loses: packets into the namespace, out of it, or both. */
export type Loss = 'sent' | 'answered' | 'both'

/** A cable between this machine and the namespace. */
export interface Cable {
  /** The address of the end within the namespace. */
  readonly address: string
  /** From now on packets are dropped: nothing is reset or refused, and neither end is told. */
  cut(loss: Loss): void
  /** Packets come through again, also those that are sent again of connections that were cut. */
  heal(): void
}

/** A network namespace, which is like a machine of its own beside this one. */
export interface Namespace {
  /** The beginning of a command that runs within the namespace. */
  readonly within: readonly string[]
  readonly cables: readonly Cable[]
}

/** Why there can be no namespaces here; undefined when there can. They need root, and `ip` and `tc` of iproute2. */
export function withoutNamespaces(): string | undefined {
  const name = `recollect-${randomBytes(4).toString('hex')}`
  const { status, stderr, error } = run('ip', 'netns', 'add', name)
  if (status === 0) run('ip', 'netns', 'del', name)
  const why = error?.message ?? String(stderr).trim()
  return status === 0 ? undefined : `no network namespaces here (root, apt-get install iproute2): ${why}`
}

/** A namespace with so many cables; it ends with the test. */
export function startNamespace(t: Scope, count: number): Namespace {
  const id = randomBytes(3).toString('hex')
  const name = `recollect-${id}`
  // These addresses are reserved for tests of networks (RFC 2544).
  const network = `198.18.${randomInt(256)}`
  must('ip', 'netns', 'add', name)
  t.after(async () => void run('ip', 'netns', 'del', name))
  must('ip', '-n', name, 'link', 'set', 'lo', 'up')
  const cables = Array.from({ length: count }, (_, index): Cable => {
    const [near, far] = [`rc${id}${index}a`, `rc${id}${index}b`]
    const [ours, address] = [`${network}.${index * 4 + 1}`, `${network}.${index * 4 + 2}`]
    must('ip', 'link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name)
    must('ip', 'addr', 'add', `${ours}/30`, 'dev', near)
    must('ip', '-n', name, 'addr', 'add', `${address}/30`, 'dev', far)
    must('ip', 'link', 'set', near, 'up')
    must('ip', '-n', name, 'link', 'set', far, 'up')
    // A queue that holds nothing drops what is put into it.
    const drop = ['root', 'pfifo', 'limit', '0']
    return {
      address,
      cut(loss) {
        if (loss !== 'answered') must('tc', 'qdisc', 'replace', 'dev', near, ...drop)
        if (loss !== 'sent') must('tc', '-n', name, 'qdisc', 'replace', 'dev', far, ...drop)
      },
      heal() {
        run('tc', 'qdisc', 'del', 'dev', near, 'root')
        run('tc', '-n', name, 'qdisc', 'del', 'dev', far, 'root')
      },
    }
  })
  return { within: ['ip', 'netns', 'exec', name], cables }
}

function must(...command: readonly [string, ...string[]]): void {
  const { status, stderr } = run(...command)
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr}`)
}

function run(command: string, ...args: readonly string[]): SpawnSyncReturns<Buffer> {
  return spawnSync(command, args, { timeout: DEADLINE_MS })
}
