import { counter, gauge, histogram, type Metric, metric, state } from '../engine/metric.ts'
import type { ClusterFigures } from './figures.ts'
import type { Peer } from './node.ts'

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
    histogram('cluster_forward_duration_seconds', 'From forwarding a command until its answer.', () => [
      [figures.forwardSeconds],
    ]),
    histogram('cluster_forward_commands', 'Commands that shared a message to the leader.', () => [
      [figures.forwardTogether],
    ]),
    histogram(
      'cluster_publish_duration_seconds',
      'From sending a message until its outcome was known, by outcome.',
      () => Object.entries(figures.publishSeconds).map(([outcome, seconds]) => [seconds, { outcome }]),
    ),
    histogram('cluster_publish_writes', 'Writes that were sent to the stream together.', () => [
      [figures.publishWrites],
    ]),
  ]
}
