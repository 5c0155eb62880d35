import { counter, gauge, histogram, histograms, type Metric, metric, state } from '../engine/metric.ts'
import { Histogram } from '../runtime/histogram.ts'
import type { Peer } from './protocol.ts'
import type { PublishOutcome } from './record-stream.ts'

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

/** The cluster as this node sees it. */
export interface ClusterHealth {
  readonly role: 'leader' | 'follower'
  readonly node: string
  readonly leader?: string
  /** Whether a NATS server is connected. */
  readonly isConnected: boolean
  /** How many events this node is known to be behind others. */
  readonly lag: number
  readonly peers: readonly Peer[]
}

const ROLES = ['leader', 'follower'] as const

export function metricsOf(figures: ClusterFigures, health: () => ClusterHealth): readonly Metric[] {
  return [
    state('cluster_role', '1 for the role that the node has, 0 for the other.', 'role', ROLES, () => health().role),
    gauge('cluster_lag_events', 'Events that other nodes are known to have, and this one has not.', () => health().lag),
    gauge('cluster_peers', 'Other nodes heard of in the last seconds.', () => health().peers.length),
    gauge('cluster_connected', '1 while a NATS server is connected.', () => Number(health().isConnected)),
    counter('cluster_reconnects_total', 'How often a NATS server was found again.', () => figures.reconnects),
    counter('cluster_takeovers_total', 'How often this node became the leader.', () => figures.takeovers),
    metric('counter', 'cluster_forwarded_commands_total', 'Commands forwarded to the leader, by outcome.', () =>
      Object.entries(figures.forwarded).map(([outcome, value]) => ({ value, labels: { outcome } })),
    ),
    histogram(
      'cluster_forward_duration_seconds',
      'From forwarding a command until its answer.',
      figures.forwardSeconds,
    ),
    histogram('cluster_forward_commands', 'Commands that shared a message to the leader.', figures.forwardTogether),
    histograms(
      'cluster_publish_duration_seconds',
      'From sending a message until its outcome was known, by outcome.',
      () => Object.entries(figures.publishSeconds).map(([outcome, seconds]) => [seconds, { outcome }]),
    ),
    histogram('cluster_publish_writes', 'Writes that were sent to the stream together.', figures.publishWrites),
  ]
}
