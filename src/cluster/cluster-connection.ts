import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import { Bucket, connect, durabilityWarnings, factsOf, retryWhileUnavailable } from './connection.ts'
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
    const warnings = durabilityWarnings(await factsOf(nc, stream.replicas, stream.messageBytes))
    const bucket = await retryWhileUnavailable(log, () => Bucket.open(nc, name, replicas))
    const messenger = new Messenger(nc, name, stream.messageBytes, log, figures)
    return { stream, bucket, messenger, figures, warnings, close: () => nc.close() }
  } catch (error) {
    await nc.close()
    throw error
  }
}
