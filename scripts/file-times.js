// A reporter of node:test: how long the tests of each file took, the longest first.
export default async function* fileTimes(events) {
  const seconds = new Map()
  for await (const { type, data } of events) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.nesting > 0) continue
    // A failure to load names the bundle, all else the source.
    const [, file = 'unknown file'] = /.*\/(test\/.*)$/.exec(data.file ?? '') ?? []
    seconds.set(file, (seconds.get(file) ?? 0) + data.details.duration_ms / 1000)
  }
  yield '\nSeconds of each file\n'
  for (const [file, took] of [...seconds].sort(([, a], [, b]) => b - a)) {
    yield `${took.toFixed(1).padStart(8)}  ${file}\n`
  }
}
