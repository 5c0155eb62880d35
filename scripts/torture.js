// The tests at full size, one at a time, with a random seed: `npm run torture -- kills`. Without a name: their list.
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { environmentOf, RUNS } from './runs.js'

const [name, ...rest] = process.argv.slice(2)
if (name === undefined) {
  process.stdout.write('npm run torture -- <name>, with\n\n')
  for (const [known, { about, full }] of Object.entries(RUNS)) {
    const sizes = Object.entries(full).map(([variable, value]) => `${variable}=${value}`)
    process.stdout.write(`  ${known.padEnd(18)} ${about} (${sizes.join(', ')})\n`)
  }
} else if (!Object.hasOwn(RUNS, name) || rest.length > 0) {
  process.stderr.write(`torture takes one of ${Object.keys(RUNS).join(', ')}\n`)
  process.exitCode = 2
} else {
  process.exitCode = run(RUNS[name])
}

function run({ file, test, full }) {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const env = { SEED: String(randomInt(2 ** 32)), ...environmentOf(full), ...process.env }
  const given = Object.keys(full).filter((variable) => variable in process.env)
  const variables = ['SEED', ...given].map((variable) => `${variable}=${env[variable]}`).join(' ')
  const repeat = `To repeat this run: ${variables} npm run torture -- ${name}\n`
  process.stdout.write(repeat)
  const built = spawnSync(process.execPath, ['scripts/build.js'], { cwd: root, stdio: 'inherit' })
  if (built.status !== 0) return built.status ?? 1
  const pattern = test === undefined ? [] : ['--test-name-pattern', test]
  const flags = ['--import', 'tsx', '--test', '--test-reporter=spec', ...pattern, file]
  const status = spawnSync(process.execPath, flags, { cwd: root, stdio: 'inherit', env }).status ?? 1
  // Hours of output may be between the two.
  process.stdout.write(repeat)
  return status
}
