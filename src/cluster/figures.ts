import { Histogram } from '../runtime/histogram.ts'
import type { PublishOutcome } from './message.ts'

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]
const TOGETHER = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** Outcomes of a command that was forwarded to the leader. */
export type ForwardOutcome = 'stored' | 'refused' | 'unavailable' | 'unknown' | 'failed'

/** Counters of a cluster node since its start. */
export class ClusterFigures {
  /** How often this node became the leader. */
  takeovers = 0
  /** How often it reconnected to NATS. */
  reconnects = 0
  readonly forwarded: Record<ForwardOutcome, number> = { stored: 0, refused: 0, unavailable: 0, unknown: 0, failed: 0 }
  /** From forwarding a command to its answer. */
  readonly forwardSeconds = new Histogram(SECONDS)
  /** Commands per message to the leader. */
  readonly forwardTogether = new Histogram(TOGETHER)
  /** From sending a message to the stream to knowing its outcome. */
  readonly publishSeconds: Record<PublishOutcome, Histogram> = {
    stored: new Histogram(SECONDS),
    behind: new Histogram(SECONDS),
    unknown: new Histogram(SECONDS),
  }
  /** Writes per batch sent to the stream. */
  readonly publishWrites = new Histogram(TOGETHER)
}
