import { setTimeout as delay } from 'node:timers/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { JetStreamApiError } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import {
  connect as connectTo,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import { Corruption, JournalMismatch, Locked, Refusal } from '../runtime/errors.ts'
import type { Register } from './election.ts'
import type { ClusterSettings } from './settings.ts'

const WRONG_LAST_SEQUENCE = [10071, 10164]

/** Whether a compare-and-set failed because another process has written. */
export function isWrongSequence(error: unknown): boolean {
  return error instanceof JetStreamApiError && WRONG_LAST_SEQUENCE.includes(error.code)
}

const CONNECT_MS = 5000
const RECONNECT_MS = 250
/** After this many unanswered pings the client reconnects to another server. */
const PING_MS = 1000
const PINGS = 3

/** Connects to NATS. The connection reconnects by itself for as long as the process lives. */
export async function connect(
  { servers, credentials }: Pick<ClusterSettings, 'servers' | 'credentials'>,
  name: string,
  files: Pick<Files, 'read'>,
): Promise<NatsConnection> {
  const urls = servers.map((server) => new URL(server.includes('://') ? server : `nats://${server}`))
  const [withUser] = urls.filter(({ username }) => username !== '')
  const options: NodeConnectionOptions = {
    servers: urls.map(({ host }) => host),
    name,
    timeout: CONNECT_MS,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: PINGS,
    ignoreAuthErrorAbort: true,
    // Capturing a stack trace for each request costs more than the request.
    noAsyncTraces: true,
    ...(urls.some(({ protocol }) => protocol === 'tls:') && { tls: tlsOf(urls) }),
    ...(withUser && { user: decodeURIComponent(withUser.username), pass: decodeURIComponent(withUser.password) }),
  }
  if (credentials !== undefined) {
    const bytes = await files.read(credentials)
    if (!bytes) throw new JournalMismatch(`The credentials file ${credentials} does not exist.`)
    options.authenticator = credsAuthenticator(bytes)
  }
  return connectTo(options)
}

/**
 * Accepts a certificate for any of the configured hosts. The client library does not tell which of them it connects to
 * when that is an address, and servers announce others by addresses that no certificate names.
 */
function tlsOf(urls: readonly URL[]): object {
  const hosts = urls.map(({ hostname }) => hostname.replace(/^\[|\]$/g, ''))
  return {
    checkServerIdentity(_: string, certificate: PeerCertificate): Error | undefined {
      const faults = hosts.map((host) => checkServerIdentity(host, certificate))
      return faults.includes(undefined) ? undefined : faults[0]
    },
  }
}

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
export async function factsOf(nc: NatsConnection, replicas: number, messageBytes: number): Promise<ServerFacts> {
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

const BUCKET_ANSWER_MS = 2000

/** State shared by the nodes of a cluster, in a NATS key-value bucket beside the stream. */
export class Bucket {
  readonly #kv: KV

  private constructor(kv: KV) {
    this.#kv = kv
  }

  static async open(nc: NatsConnection, stream: string, replicas: number): Promise<Bucket> {
    const kv = await new Kvm(nc).create(`${stream}-cluster`, {
      replicas,
      history: 1,
      timeout: BUCKET_ANSWER_MS,
      // Reads go to the leader of the bucket, whose value is never stale.
      allow_direct: false,
    })
    return new Bucket(kv)
  }

  register(key: string): Register {
    return {
      get: async () => {
        const entry = await this.#kv.get(key)
        return entry ? { text: entry.string(), revision: entry.revision } : undefined
      },
      put: async (text, after) => {
        try {
          return await this.#kv.put(key, text, { previousSeq: after, timeout: BUCKET_ANSWER_MS })
        } catch (error) {
          if (isWrongSequence(error)) return undefined
          throw error
        }
      },
    }
  }

  /** Calls back with each later value of a key until the connection ends. */
  async watch(key: string, changed: (text: string) => void): Promise<void> {
    const entries = await this.#kv.watch({ key })
    void (async () => {
      for await (const entry of entries) if (entry.operation === 'PUT') changed(entry.string())
    })()
  }
}

const PATIENCE_MS = 60_000
const RETRY_MS = 500

/**
 * Retries an operation that needs the NATS servers, which may still be starting or electing. Errors that waiting cannot
 * fix are thrown at once.
 */
export async function retryWhileUnavailable<T>(log: Logger, what: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (let tries = 0; ; tries++) {
    try {
      return await what()
    } catch (error) {
      const isFinal = [Corruption, JournalMismatch, Locked, errors.AuthorizationError].some(
        (final) => error instanceof final,
      )
      const { message } = error as Error
      if (isFinal || performance.now() > deadline) {
        throw isFinal && !(error instanceof errors.AuthorizationError)
          ? error
          : new Refusal('Unavailable', `The NATS servers cannot be used: ${message}.`)
      }
      if (tries === 0) log.warn(`the NATS servers cannot be used yet: ${message}`)
      await delay(RETRY_MS)
    }
  }
}
