// The whole suite: build, types, lint, then every test file. `node scripts/test.js test/http` runs a part.
import { spawnSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { provideTools } from './tools.js'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)

const wanted = process.argv.slice(2)
run('npm', ['run', '--silent', 'build'])
if (wanted.length === 0) run('npm', ['run', '--silent', 'check'])

const env = { ...process.env, ...provideTools() }
const files = (wanted.length > 0 ? wanted : ['test']).flatMap(testsIn).sort()
if (files.length === 0) throw new Error(`no test file in ${wanted.join(', ')}`)
run(process.execPath, ['--import', 'tsx', '--test', '--test-concurrency=2', '--test-reporter=spec', ...files], env)

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
