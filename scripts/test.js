// Builds, then runs test files: `node scripts/test.js` the quick suite, `--all` also the long files and larger sizes,
// `node scripts/test.js test/http` a part, `--without browser,cluster` all but some folders of test/.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transform } from 'esbuild'
import minimist from 'minimist'
import { sizesOfAll } from './runs.js'
import { provideTools } from './tools.js'

/** Most tests wait for time, the disk or another process for a while: some files more than cores keep these busy. */
const FILES_AT_ONCE = Math.min(availableParallelism(), 4) + 4

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const { _: parts, all, without } = minimist(process.argv.slice(2), { boolean: ['all'], string: ['without'] })
const excluded = without ? without.split(',').map((folder) => join('test', folder)) : []

const files = (parts.length > 0 ? parts : ['test'])
  .flatMap(testsIn)
  .filter((file) => all || parts.includes(file) || !file.endsWith('.long.test.ts'))
if (files.length === 0) throw new Error(`no test file in ${parts.join(', ')}`)

run(process.execPath, ['scripts/build.js'])
const reporters = ['spec', './scripts/file-times.js'].flatMap((reporter) => [
  `--test-reporter=${reporter}`,
  '--test-reporter-destination=stdout',
])
const compiled = await compile()
process.on('exit', () => rmSync(compiled, { recursive: true, force: true }))
const loader = ['--enable-source-maps', '--import', './scripts/compiled.js']
run(process.execPath, [...loader, '--test', `--test-concurrency=${FILES_AT_ONCE}`, ...reporters, ...files], {
  ...(all && sizesOfAll()),
  ...process.env,
  ...provideTools(),
  COMPILED: compiled,
})

function testsIn(path) {
  if (excluded.includes(path)) return []
  if (!statSync(path).isDirectory()) return path.endsWith('.test.ts') ? [path] : []
  return readdirSync(path).flatMap((name) => testsIn(join(path, name)))
}

/** Compiles what tests import, file by file, to a new directory. */
async function compile() {
  const directory = mkdtempSync(join(tmpdir(), 'recollect-tests-'))
  const sources = ['src', 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  )
  const options = { loader: 'ts', format: 'esm', target: 'node20', sourcemap: 'inline' }
  await Promise.all(
    sources.map(async (path) => {
      const { code } = await transform(readFileSync(path), { ...options, sourcefile: resolve(path) })
      const compiled = join(directory, path.replace(/ts$/, 'js'))
      mkdirSync(dirname(compiled), { recursive: true })
      writeFileSync(compiled, code)
    }),
  )
  return directory
}

function run(command, args, env = process.env) {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env })
  if (status !== 0) process.exit(status ?? 1)
}
