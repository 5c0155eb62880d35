// A reporter of node:test: the tests that a file's deadline interrupted, skipped tests, which with CI=true are failures,
// and the ten files whose tests took longest.
import { resolve } from 'node:path'

const SLOWEST = 10

export default async function* report(events) {
  const seconds = new Map()
  /** Tests that have begun and not ended, by file and name. */
  const running = new Map()
  const interrupted = []
  const skipped = []
  for await (const { type, data } of events) {
    const { name, nesting, details } = data
    const file = sourceOf(data.file)
    const key = `${file} ${nesting} ${name}`
    if (type === 'test:dequeue') running.set(key, { file, name })
    if (type === 'test:complete') running.delete(key)
    if (type !== 'test:pass' && type !== 'test:fail') continue
    if (details.error?.failureType === 'testTimeoutFailure' && resolve(name) === data.file) {
      running.delete(key)
      interrupted.push(...[...running.values()].filter((one) => one.file === file))
    }
    if (data.skip !== undefined) skipped.push({ file, name, reason: data.skip })
    // A file that fails is an event, too, with the time of its tests.
    if (nesting === 0 && resolve(name) !== data.file)
      seconds.set(file, (seconds.get(file) ?? 0) + details.duration_ms / 1000)
  }
  for (const { file, name } of interrupted) yield `\nInterrupted at the deadline of ${file}: ${name}\n`
  for (const { file, name, reason } of skipped) yield `\nSkipped in ${file}: ${name} (${reason})\n`
  if (skipped.length > 0 && process.env.CI === 'true') {
    process.exitCode = 1
    yield '\nWith CI=true a skipped test is a failure.\n'
  }
  yield `\nSeconds of the ${SLOWEST} slowest files\n`
  for (const [file, took] of [...seconds].sort(([, a], [, b]) => b - a).slice(0, SLOWEST)) {
    yield `${took.toFixed(1).padStart(8)}  ${file}\n`
  }
}

/** The source of a test file. Events of the file as a whole name its bundle. */
function sourceOf(file = '') {
  return /.*\/(test\/.*)\.[jt]s$/.exec(file)?.[1]?.concat('.ts') ?? 'unknown file'
}
