// Loaded into a server that is watched from within: tells, when it is asked, what the process holds in memory and how
// long its event loop was blocked.
import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 1

if (process.send) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delay.enable()
  process.on('message', (question) => {
    if (question === 'memory') {
      for (let again = 0; again < 3; again++) globalThis.gc()
      const { heapUsed, external, rss } = process.memoryUsage()
      process.send({ heapBytes: heapUsed, externalBytes: external, residentBytes: rss })
      // The collection blocked the event loop.
      setTimeout(() => delay.reset(), 10)
    } else {
      process.send({ longestMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS) })
      delay.reset()
    }
  })
  process.channel.unref()
}
