/**
 * `npm run bench -- [<name>…] [--rounds <n>] [--seconds <n>] [--items <n>] [--against <directory>]`: Recollect and its peers, interleaved; prints a table, and writes it to bench/results.md.
 * It ends all processes that it starts, and removes the directory of its files.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import minimist from 'minimist'
import { against } from './groups/against.ts'
import { blocks } from './groups/blocks.ts'
import { cluster } from './groups/cluster.ts'
import { get } from './groups/get.ts'
import { growth } from './groups/growth.ts'
import { journal } from './groups/journal.ts'
import { large } from './groups/large.ts'
import { past } from './groups/past.ts'
import { query } from './groups/query.ts'
import { readings } from './groups/readings.ts'
import { sockets } from './groups/sockets.ts'
import { starts } from './groups/starts.ts'
import { subscriptions } from './groups/subscriptions.ts'
import { writes } from './groups/writes.ts'
import { years } from './groups/years.ts'
import type { Bench, Group } from './harness/bench.ts'
import { Fixtures } from './harness/fixtures.ts'
import { memoryLatencyNs } from './harness/memory-latency.ts'
import { type Measured, missed, tableOf } from './harness/report.ts'
import { Servers } from './harness/servers.ts'
import { versions } from './harness/versions.ts'

const GROUPS: readonly Group[] = [
  get,
  query,
  writes,
  journal,
  sockets,
  subscriptions,
  starts,
  large,
  blocks,
  readings,
  growth,
  past,
  years,
  cluster,
]
/** Measured only when it is named. */
const NAMED: readonly Group[] = [against]
const MANY = 1_000_000
/** For half a year of readings. */
const MOST = 20_000_000
const HERE = fileURLToPath(new URL('.', import.meta.url))

interface Asked {
  readonly groups: readonly Group[]
  readonly rounds: number
  readonly seconds: number
  readonly items: number
  readonly against: string | undefined
}

function asked(argv: readonly string[]): Asked {
  const {
    _: names,
    rounds = 3,
    seconds = 3,
    items = MANY,
    against: directory,
    ...others
  } = minimist([...argv], { string: ['_', 'against'] })
  const known = [...GROUPS, ...NAMED]
  const unknown = names.filter((name) => !known.some((group) => group.name === name))
  const isCount = (value: number, most = 60) => Number.isInteger(value) && value >= 1 && value <= most
  if (
    unknown.length > 0 ||
    Object.keys(others).length > 0 ||
    !isCount(rounds) ||
    !isCount(seconds) ||
    !isCount(items, MOST)
  ) {
    process.stderr.write(
      `npm run bench -- [<name>…] [--rounds <1 to 60>] [--seconds <1 to 60>] [--items <1 to ${MOST}>] [--against <directory>], with the names\n\n`,
    )
    for (const { name, about } of known) process.stderr.write(`  ${name.padEnd(14)} ${about}\n`)
    process.exit(2)
  }
  const groups = names.length === 0 ? GROUPS : known.filter(({ name }) => names.includes(name))
  return { groups, rounds, seconds, items, against: directory }
}

/** The peers have a lock of their own; they are installed when that is newer than what is there. */
function prepare(): void {
  const installedAt = join(HERE, 'node_modules', '.package-lock.json')
  const isThere =
    existsSync(installedAt) && statSync(installedAt).mtimeMs >= statSync(join(HERE, 'package-lock.json')).mtimeMs
  const steps = [
    ...(isThere ? [] : [{ command: 'npm', args: ['ci', '--no-audit', '--no-fund'], cwd: HERE }]),
    { command: process.execPath, args: ['scripts/build.js'], cwd: join(HERE, '..') },
  ]
  for (const { command, args, cwd } of steps) {
    const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })
    if (status !== 0) throw error ?? new Error(`${command} ${args.join(' ')} ended with ${status}`)
  }
}

const argv = process.argv.slice(2)
const { groups, rounds, seconds, items, against: directoryAgainst } = asked(argv)
prepare()
const directory = await mkdtemp(join(tmpdir(), 'recollect-bench-'))
const servers = new Servers()
const clean = (): void => {
  servers.killAll()
  rmSync(directory, { recursive: true, force: true })
}
process.on('exit', clean)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))

const began = performance.now()
const say = (text: string): void => {
  process.stderr.write(`${String(Math.round((performance.now() - began) / 1000)).padStart(5)} s  ${text}\n`)
}
const bench: Bench = {
  rounds,
  seconds,
  items,
  against: directoryAgainst,
  fixtures: new Fixtures(directory),
  servers,
  say,
}
const all: Measured[] = []
const latencyNs = [memoryLatencyNs()]
for (const group of groups) {
  say(`${group.name}: ${group.about}`)
  // The flushes of this group would wait for the writes of the groups before it.
  spawnSync('sync')
  try {
    all.push({ group: group.name, rows: await group.measure(bench) })
  } catch (error) {
    say(`${group.name} failed: ${(error as Error).stack}`)
    all.push({ group: group.name, rows: [], failure: (error as Error).message })
  }
  await servers.stopAll()
}

latencyNs.push(memoryLatencyNs())
const minutes = Math.round((performance.now() - began) / 6000) / 10
const command = ['npm run bench', ...(argv.length > 0 ? ['--', ...argv] : [])].join(' ')
const text = `# Benchmark results

Made by \`${command}\` on ${new Date().toISOString().slice(0, 10)}, in ${minutes} minutes: each figure is the median of ${rounds}
rounds, in brackets the lowest and the highest; the rounds of all servers are interleaved, and a ratio is that of figures of the same round.
64 connections unless a row says otherwise, requests by wrk from the same machine: ${cpus().length} cores
(${cpus()[0]?.model}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${await versions()}.
A memory read that misses all caches took ${latencyNs.map(Math.round).join(' ns before the run and ')} ns after it; a lookup among a million items
consists of such reads.

${tableOf(all)}
`
process.stdout.write(`\n${text}`)
if (groups.length === GROUPS.length && items === MANY) writeFileSync(join(HERE, 'results.md'), text)
say(`${missed(all)} goals missed`)
process.exit(all.some(({ failure }) => failure !== undefined) ? 1 : 0)
