import type { NatsConnection } from '@nats-io/transport-node'

/** Properties of the NATS servers that keep the stream. */
export interface ServerFacts {
  readonly version: string
  readonly replicas: number
  /** Whether the servers sync every write; undefined if they do not tell this account. */
  readonly syncsAlways: boolean | undefined
  readonly messageBytes: number
}

const ANSWER_MS = 1000
/** Earlier versions could lose a whole stream when processes were killed: nats-server issue 6888. */
const KEEPS_STREAMS = [2, 10, 23] as const
/** The first version with `sync_interval: always`. */
const CAN_SYNC_ALWAYS = [2, 10, 0] as const

/** Asks the connected server. It reveals its settings to the system account only. */
export async function serverFacts(nc: NatsConnection, replicas: number, messageBytes: number): Promise<ServerFacts> {
  const { version = '', server_id = '' } = nc.info ?? {}
  let syncsAlways: boolean | undefined
  try {
    const answer = await nc.request(`$SYS.REQ.SERVER.${server_id}.VARZ`, '', { timeout: ANSWER_MS })
    const { data } = answer.json<{ data?: { jetstream?: { config?: { sync_always?: boolean } } } }>()
    if (data?.jetstream?.config) syncsAlways = data.jetstream.config.sync_always === true
  } catch {
    // An account without permission gets no response.
  }
  return { version, replicas, syncsAlways, messageBytes }
}

/** Warnings about guarantees that such servers cannot give; docs/cluster.md explains them. */
export function durabilityWarnings({ version, replicas, syncsAlways, messageBytes }: ServerFacts): readonly string[] {
  const warnings: string[] = []
  if (isBefore(version, KEEPS_STREAMS)) {
    warnings.push(
      `nats-server ${version} is older than 2.10.23: earlier versions are known to forget a whole stream when servers are killed (nats-server issue 6888). Every node's own copy of the journal outlives that.`,
    )
  }
  if (replicas < 3) {
    warnings.push(
      `The stream has ${replicas === 1 ? 'one copy' : `${replicas} copies`}: what is written is lost with the disk of one server. Three servers keep three.`,
    )
  }
  if (syncsAlways !== true) {
    const known =
      syncsAlways === false ? 'The NATS servers do not sync' : 'It is not known whether the NATS servers sync'
    const remedy = isBefore(version, CAN_SYNC_ALWAYS)
      ? 'This version cannot sync each write; 2.10 and later can (sync_interval: always).'
      : 'sync_interval: always in the jetstream section of their settings makes them.'
    const when =
      replicas < 3 ? 'a power failure' : 'a power failure of most servers at once, or of one at a bad moment,'
    warnings.push(
      `${known} each write to the disk before they answer; by default they do so every two minutes, and ${when} loses what was answered since. ${remedy}`,
    )
  }
  if (messageBytes < 1024 * 1024 - 1024) {
    warnings.push(
      `The NATS servers take messages of at most ${messageBytes + 1024} bytes (max_payload): larger items are refused with 413.`,
    )
  }
  return warnings
}

function isBefore(version: string, [major, minor, patch]: readonly [number, number, number]): boolean {
  const [, ...parts] = /^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []
  if (parts.length === 0) return false
  const [ownMajor = 0, ownMinor = 0, ownPatch = 0] = parts.map(Number)
  return (ownMajor - major || ownMinor - minor || ownPatch - patch) < 0
}
