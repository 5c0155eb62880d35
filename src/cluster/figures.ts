import { Distribution } from '../measures.ts'
import type { Came } from './sender.ts'

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]
const TOGETHER = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** What became of a command that was handed to the node that decides. */
export type Forwarded = 'stored' | 'refused' | 'unavailable' | 'unknown' | 'failed'

/** What a node of a cluster has done since it started. */
export class ClusterFigures {
  /** How often it began to decide. */
  takeovers = 0
  /** How often it found a NATS server again after it had lost one. */
  reconnects = 0
  readonly forwarded: Record<Forwarded, number> = { stored: 0, refused: 0, unavailable: 0, unknown: 0, failed: 0 }
  /** From when a command was handed on until its answer was there. */
  readonly forwardSeconds = new Distribution(SECONDS)
  /** Commands that shared a message to the node that decides. */
  readonly forwardTogether = new Distribution(TOGETHER)
  /** From when a message was first sent to the stream until it was known what came of it. */
  readonly publishSeconds: Record<Came, Distribution> = {
    stored: new Distribution(SECONDS),
    behind: new Distribution(SECONDS),
    unknown: new Distribution(SECONDS),
  }
  /** Writes that were sent to the stream together. */
  readonly publishWrites = new Distribution(TOGETHER)
}
