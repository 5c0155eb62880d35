import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import {
  connect as connectTo,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import { JournalMismatch } from '../errors.ts'
import type { Files } from '../files/files.ts'

export interface ConnectionSettings {
  /** `nats://` or `tls://` URLs, with user and password where they are needed. */
  readonly servers: readonly string[]
  /** The path of a credentials file. */
  readonly credentials: string | undefined
}

const CONNECT_MS = 5000
const RECONNECT_MS = 250
/** A server that answers none of so many pings is left for another one. */
const PING_MS = 1000
const PINGS = 3

/** A connection that finds its way back by itself, for as long as the process lives. */
export async function connect(
  { servers, credentials }: ConnectionSettings,
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
    // A stack trace for every request costs more than the request.
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
 * A server's certificate must be for one of the hosts that the settings name. Which of them is connected to the client
 * library does not say when it is an address, and a server may tell of others by addresses that no certificate has.
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
