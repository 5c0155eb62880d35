import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { JetStreamApiError } from '@nats-io/jetstream'
import {
  connect as connectTo,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import type { Files } from '../files/files.ts'
import { JournalMismatch } from '../runtime/errors.ts'

export interface ClusterSettings {
  /** `nats://` or `tls://` URLs, with user and password if needed. */
  readonly servers: readonly string[]
  readonly stream: string
  /** Copies of the stream. */
  readonly replicas: number
  /** Path of a credentials file. */
  readonly credentials: string | undefined
}

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
