// The whole suite: build, types, lint, then every test file. `node scripts/test.js test/http` runs a part.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { provideTools } from './tools.js'

/** What takes longest begins first, so that no core waits for the last file; in the order of what was measured. */
const LONGEST = [
  'test/cluster/cuts.test.ts',
  'test/cluster/any-node.test.ts',
  'test/cluster/cluster.test.ts',
  'test/cluster/linearizability.test.ts',
  'test/cluster/kills.test.ts',
  'test/faults/kills.test.ts',
  'test/projections/data-file.test.ts',
  'test/faults/owners.test.ts',
  'test/fleet.test.ts',
  'test/browser/shell.test.ts',
  'test/browser/journal.test.ts',
  'test/cli/backup.test.ts',
  'test/browser/collections.test.ts',
  'test/browser/sensors.test.ts',
  'test/browser/swagger.test.ts',
  'test/faults/disks.test.ts',
  'test/model/model.test.ts',
  'test/cli/verify.test.ts',
  'test/http/restore.test.ts',
  'test/client/live.test.ts',
  'test/cli/replay-server.test.ts',
  'test/security/fuzz.test.ts',
  'test/http/past.test.ts',
  'test/security/access-limits.test.ts',
  'test/security/access-table.test.ts',
  'test/sockets/subscriptions.test.ts',
  'test/sockets/stalled-readers.test.ts',
  'test/package.test.ts',
  'test/readme.test.ts',
]
/** Much of what a test takes is waiting for time, the disk or another process: with one file more than cores none of these stands idle. */
const FILES_AT_ONCE = Math.min(availableParallelism(), 4) + 1

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)

const wanted = process.argv.slice(2)
run('npm', ['run', '--silent', 'build'])
if (wanted.length === 0) run('npm', ['run', '--silent', 'check'])

const env = { ...process.env, ...provideTools() }
const gone = LONGEST.filter((file) => !existsSync(file))
if (gone.length > 0) throw new Error(`scripts/test.js names what is not there: ${gone.join(', ')}`)
const files = (wanted.length > 0 ? wanted : ['test'])
  .flatMap(testsIn)
  .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
if (files.length === 0) throw new Error(`no test file in ${wanted.join(', ')}`)
run(process.execPath, ['--import', 'tsx', 'scripts/in-order.js', String(FILES_AT_ONCE), ...files], env)

function rank(file) {
  const place = LONGEST.indexOf(file)
  return place < 0 ? LONGEST.length : place
}

function testsIn(path) {
  if (!statSync(path).isDirectory()) return [path]
  return readdirSync(path)
    .map((name) => join(path, name))
    .flatMap((inner) =>
      statSync(inner).isDirectory()
        ? testsIn(inner)
        : inner.endsWith('.test.ts')
          ? [relative(root, join(root, inner))]
          : [],
    )
}

function run(command, args, env = process.env) {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env })
  if (status !== 0) process.exit(status ?? 1)
}
