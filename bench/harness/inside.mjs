// Loaded into a server that is watched from within: tells, when it is asked, what the process holds in memory and how
// long its event loop was blocked. If BENCH_CLOCK_MS is set, that is the time of the process, until it is told another one.
import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 1

let clockMs = Number(process.env.BENCH_CLOCK_MS)

// Timers and the monotonic clock stay those of the machine.
if (clockMs > 0) {
  globalThis.Date = class extends Date {
    constructor(...parts) {
      if (parts.length === 0) super(clockMs)
      else super(...parts)
    }

    static now() {
      return clockMs
    }
  }
}

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
    } else if (typeof question === 'number') {
      clockMs = question
      process.send({ clockMs })
    } else {
      process.send({ longestMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS) })
      delay.reset()
    }
  })
  process.channel.unref()
}
