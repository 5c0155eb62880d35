import { setTimeout as delay } from 'node:timers/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
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
import { Bucket } from './bucket.ts'
import { durabilityWarnings, serverFacts } from './durability.ts'
import { ClusterFigures } from './figures.ts'
import { JetStream } from './jetstream.ts'
import { Messenger } from './messenger.ts'
import type { ClusterSettings } from './settings.ts'

/** The NATS connection of a node, with everything in NATS that the cluster shares. */
export interface ClusterConnection {
  readonly stream: JetStream
  readonly bucket: Bucket
  readonly messenger: Messenger
  readonly figures: ClusterFigures
  /** Guarantees that these NATS servers cannot give. */
  readonly warnings: readonly string[]
  close(): Promise<void>
}

/** Connects a node; waits while the NATS servers are starting. */
export async function openConnection(
  settings: ClusterSettings,
  node: string,
  files: Files,
  log: Logger,
): Promise<ClusterConnection> {
  const { stream: name, replicas } = settings
  const figures = new ClusterFigures()
  const nc = await retryWhileUnavailable(log, () => connect(settings, `recollect ${node}`, files))
  try {
    const stream = await retryWhileUnavailable(log, () => JetStream.open(nc, name, replicas, log))
    const warnings = durabilityWarnings(await serverFacts(nc, stream.replicas, stream.messageBytes))
    const bucket = await retryWhileUnavailable(log, () => Bucket.open(nc, name, replicas))
    const messenger = new Messenger(nc, name, stream.messageBytes, log, figures)
    return { stream, bucket, messenger, figures, warnings, close: () => nc.close() }
  } catch (error) {
    await nc.close()
    throw error
  }
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

const PATIENCE_MS = 60_000
const RETRY_MS = 500

/**
 * Retries an operation that needs the NATS servers, which may still be starting or electing. Errors that waiting cannot
 * fix are thrown at once.
 */
export async function retryWhileUnavailable<T>(log: Logger, work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if ([Corruption, JournalMismatch, Locked].some((final) => error instanceof final)) throw error
      const { message } = error as Error
      if (error instanceof errors.AuthorizationError || performance.now() > deadline) {
        throw new Refusal('Unavailable', `The NATS servers cannot be used: ${message}.`)
      }
      if (tries === 0) log.warn(`the NATS servers cannot be used yet: ${message}`)
      await delay(RETRY_MS)
    }
  }
}
