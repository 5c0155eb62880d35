import { choice, integer, text, texts } from '../settings/kinds.ts'

/** Where the stream of a journal is. */
export interface ClusterSettings {
  /** `nats://` or `tls://` URLs, with user and password if needed. */
  readonly servers: readonly string[]
  readonly stream: string
  /** Copies of the stream. */
  readonly replicas: number
  /** Path of a credentials file. */
  readonly credentials: string | undefined
}

/** A migration between a journal in a directory and a stream. */
export interface Move {
  readonly settings: ClusterSettings
  readonly directory: string
  /** From the directory to the stream; otherwise back. */
  readonly isToStream: boolean
}

export const DEFAULT_STREAM = 'recollect'

export const CLUSTER_KEYS = {
  'Journal.Type': choice(
    'file',
    ['file', 'jetstream'],
    'where the journal is: on disk (file), or in NATS JetStream for several nodes (jetstream)',
  ),
  'Journal.Servers': texts([], 'the URLs of the NATS servers'),
  'Journal.Stream': text(DEFAULT_STREAM, 'the name of the stream'),
  'Journal.Replicas': integer(0, 0, 'copies of the stream; 0: three where there are three servers, else one'),
  'Journal.Credentials': text('', 'the path of a NATS credentials file'),
} as const

/** The settings of the cluster; undefined if the journal is in local files. */
export function readCluster(
  value: (name: string) => unknown,
  absolute: (path: string) => string,
  mistakes: string[],
): ClusterSettings | undefined {
  const get = <Name extends keyof typeof CLUSTER_KEYS>(name: Name) =>
    value(name) as (typeof CLUSTER_KEYS)[Name]['default']
  if (get('Journal.Type') === 'file') return undefined
  const credentials = get('Journal.Credentials')
  const given = {
    servers: get('Journal.Servers'),
    stream: get('Journal.Stream'),
    replicas: get('Journal.Replicas'),
    credentials: credentials === '' ? undefined : absolute(credentials),
  }
  return completed(given, mistakes)
}

/** Valid names of streams and subjects for NATS servers. */
const STREAM_NAME = /^[\w-]{1,64}$/
const SERVER = /^((nats|tls):\/\/)?[^/\s]+$/

/** Checks the location of a stream, and completes it: with `replicas` 0, the number of servers decides. */
export function completed(settings: ClusterSettings, mistakes: string[]): ClusterSettings {
  const { servers, stream, replicas } = settings
  if (servers.length === 0) mistakes.push('Journal.Servers must name a NATS server, such as nats://localhost:4222.')
  for (const server of servers) {
    if (SERVER.test(server)) continue
    mistakes.push('Journal.Servers must hold URLs such as nats://localhost:4222; one of them is none.')
  }
  if (!STREAM_NAME.test(stream)) mistakes.push('Journal.Stream must have 1 to 64 letters, digits, - or _.')
  return { ...settings, replicas: replicas || (servers.length >= 3 ? 3 : 1) }
}
