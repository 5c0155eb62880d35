import type { ClusterSettings } from '../cluster/connection.ts'

/** Valid names of streams and subjects for NATS servers. */
const STREAM_NAME = /^[\w-]{1,64}$/
const SERVER = /^((nats|tls):\/\/)?[^/\s]+$/

/** Checks the location of a stream, and completes it: with `replicas` 0, the number of servers decides. */
export function readCluster(
  { servers, stream, replicas, credentials }: ClusterSettings,
  mistakes: string[],
): ClusterSettings {
  if (servers.length === 0) mistakes.push('Journal.Servers must name a NATS server, such as nats://localhost:4222.')
  for (const server of servers) {
    if (SERVER.test(server)) continue
    mistakes.push('Journal.Servers must hold URLs such as nats://localhost:4222; one of them is none.')
  }
  if (!STREAM_NAME.test(stream)) mistakes.push('Journal.Stream must have 1 to 64 letters, digits, - or _.')
  return {
    servers,
    stream,
    replicas: replicas || (servers.length >= 3 ? 3 : 1),
    credentials,
  }
}
