// Builds, then runs test files: `node scripts/test.js` the quick suite, `--long` the long files, `--all` both at larger
// sizes, `node scripts/test.js test/http` a part, `--without browser,cluster` all but some folders of test/. The tests
// in test/clients run only when named: their packages are installed then.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, normalize, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, stop } from 'esbuild'
import minimist from 'minimist'
import { CLIENTS, linkClients, provideClients } from './clients.js'
import { sizesOfAll } from './runs.js'
import { provideTools } from './tools.js'

/** A test waits for a timer or the disk now and then: two files more than cores keep these busy. More make each slower. */
const FILES_AT_ONCE = Math.min(availableParallelism(), 4) + 2
/** Adds network interfaces, at which Chromium aborts what it is loading (ERR_NETWORK_CHANGED): runs after the others. */
const CHANGES_NETWORK = join('test', 'cluster', 'cuts.long.test.ts')

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const options = minimist(process.argv.slice(2), { boolean: ['all', 'long'], string: ['without'] })
const { _: parts, all, long, without } = options
const excluded = without ? without.split(',').map((folder) => join('test', folder)) : []
if (parts.length === 0) excluded.push(CLIENTS)

const files = (parts.length > 0 ? parts : ['test'])
  .flatMap(testsIn)
  .filter((file) => all || parts.includes(file) || file.endsWith('.long.test.ts') === long)
/** Ends a file that hangs, so that the suite fails and names it. Each wait has a shorter deadline of its own. */
const fileDeadlineMs = (all || long ? 10 : 5) * 60_000
if (files.length === 0) throw new Error(`no test file in ${parts.join(', ')}`)
const hasClients = files.some((file) => normalize(file).startsWith(join(CLIENTS, sep)))

if (hasClients) provideClients(run)
run(process.execPath, ['scripts/build.js'])
const reporters = ['spec', './scripts/report.js'].flatMap((reporter) => [
  `--test-reporter=${reporter}`,
  '--test-reporter-destination=stdout',
])
const compiled = await compile()
await stop()
process.on('exit', () => rmSync(compiled, { recursive: true, force: true }))
if (hasClients) linkClients(compiled)
const last = files.filter((file) => normalize(file) === CHANGES_NETWORK)
const others = files.filter((file) => !last.includes(file))
const limits = [`--test-concurrency=${FILES_AT_ONCE}`, `--test-timeout=${fileDeadlineMs}`]
const flags = ['--enable-source-maps', '--test', ...limits, ...reporters]
const env = { ...(all && sizesOfAll()), ...process.env, ...provideTools({ hasClients }) }
for (const round of [others, last]) {
  const tests = round.map((file) => join(compiled, file.replace(/ts$/, 'js')))
  if (tests.length > 0) run(process.execPath, [...flags, ...tests], env)
}

function testsIn(path) {
  if (excluded.includes(path)) return []
  if (!statSync(path).isDirectory()) return path.endsWith('.test.ts') ? [path] : []
  return readdirSync(path).flatMap((name) => (name === 'node_modules' ? [] : testsIn(join(path, name))))
}

/** Bundles each test file with the sources that it imports, into a new directory. Packages are not bundled. */
async function compile() {
  const directory = mkdtempSync('dist.tests-')
  await build({
    entryPoints: files,
    outdir: directory,
    outbase: '.',
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: 'inline',
    sourcesContent: false,
    plugins: [{ name: 'own-url', setup: ({ onLoad }) => onLoad({ filter: /\.ts$/ }, withItsUrl) }],
    logLevel: 'warning',
  })
  return directory
}

/** Keeps `import.meta.url` the URL of the source file, though the code runs from a bundle. */
async function withItsUrl({ path }) {
  const contents = await readFile(path, 'utf8')
  return { contents: contents.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)), loader: 'ts' }
}

function run(command, args, env = process.env) {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env })
  if (status !== 0) process.exit(status ?? 1)
}
