import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { DEADLINE_MS, fetch, until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { blocksOf } from '../support/documents.ts'
import { json, ofOneServer, spawnServer, storeBuilt } from '../support/server.ts'

const UNITS = fileURLToPath(new URL('../../examples/operations', import.meta.url))
const CLUSTER = fileURLToPath(new URL('../../docs/cluster.md', import.meta.url))
const UNIT = join(UNITS, 'recollect.service')
const BACKUP = join(UNITS, 'recollect-backup.service')
const { SYSTEMD_ANALYZE = '', STRACE = '' } = process.env
const skip = SYSTEMD_ANALYZE === '' ? 'systemd is missing (apt-get install systemd)' : false
const skipTraces = skip || (STRACE === '' ? 'strace is missing (apt-get install strace)' : ofOneServer('it is traced'))

function analyze(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(SYSTEMD_ANALYZE, args, { encoding: 'utf8', timeout: DEADLINE_MS })
  return { status, stdout, stderr }
}

for (const unit of [UNIT, BACKUP]) {
  test(`${unit.slice(UNITS.length + 1)} has an exposure of at most 3.0`, { skip }, () => {
    const { status, stdout, stderr } = analyze('security', '--offline=true', '--no-pager', '--threshold=30', unit)
    assert.equal(status, 0, stdout + stderr)
    assert.match(stdout, /Overall exposure level for \S+: [\d.]+/)
  })
}

test('the units, and the drop-in of docs/cluster.md, have no unknown directive and no malformed value', {
  skip,
}, async (t) => {
  const directory = await temporaryDirectory(t)
  const names = readdirSync(UNITS).filter((name) => /\.(service|timer)$/.test(name))
  assert.equal(names.length, 3)
  for (const name of names) {
    writeFileSync(join(directory, name), runnable(readFileSync(join(UNITS, name), 'utf8')))
  }
  const dropIn = blocksOf(readFileSync(CLUSTER, 'utf8')).find(({ text }) => text.startsWith('[Unit]'))
  assert.ok(dropIn)
  mkdirSync(join(directory, 'recollect.service.d'))
  writeFileSync(join(directory, 'recollect.service.d', 'cluster.conf'), runnable(dropIn.text))
  const { status, stdout, stderr } = analyze('verify', '--man=no', ...names.map((name) => join(directory, name)))
  assert.deepEqual([status, stdout, stderr], [0, '', ''])
})

/** The program is not installed here. */
function runnable(unit: string): string {
  return unit.replaceAll('/usr/local/bin/recollect', '/bin/true')
}

/** The values of a directive, without those of an empty assignment. */
function valuesOf(unit: string, directive: string): readonly string[] {
  return Array.from(readFileSync(unit, 'utf8').matchAll(new RegExp(`^${directive}=(.*)$`, 'gm')), ([, value = '']) =>
    value.split(' '),
  ).flat()
}

/** All system calls that a filter names, with those of its groups. */
function callsOf(names: readonly string[]): readonly string[] {
  return names.flatMap((name) => {
    if (!name.startsWith('@')) return [name]
    const { stdout } = analyze('syscall-filter', '--no-pager', name)
    return callsOf(Array.from(stdout.matchAll(/^ {4}([@\w-]+)$/gm), ([, one]) => one as string))
  })
}

function allowedCalls(unit: string): ReadonlySet<string> {
  const lines = Array.from(readFileSync(unit, 'utf8').matchAll(/^SystemCallFilter=(.*)$/gm), ([, line = '']) => line)
  // systemd always allows what it needs to start the program.
  const allowed = new Set(callsOf(['@default']))
  for (const line of lines) {
    const isDenied = line.startsWith('~')
    for (const call of callsOf(line.replace('~', '').split(' '))) isDenied ? allowed.delete(call) : allowed.add(call)
  }
  return allowed
}

interface Trace {
  readonly calls: ReadonlySet<string>
  readonly families: ReadonlySet<string>
  /** Paths that were created, changed or removed. */
  readonly written: readonly string[]
}

function readTrace(file: string, directory: string): Trace {
  const text = readFileSync(file, 'utf8')
  const all = (pattern: RegExp): Set<string> =>
    new Set(Array.from(text.matchAll(pattern), ([, first]) => first as string))
  const opened = all(/ openat\(AT_FDCWD, "([^"]+)", [^)\n]*O_(?:WRONLY|RDWR|CREAT)/g)
  const named = all(/ (?:mkdir|rename|unlink|rmdir|link|symlink|chmod|truncate)(?:at)?2?\((?:AT_FDCWD, )?"([^"]+)"/g)
  return {
    calls: all(/^\d+ +(\w+)\(/gm),
    families: all(/ socket\((\w+)/g),
    written: [...opened, ...named].map((path) => resolve(directory, path)),
  }
}

/** The tracer is a grandchild, so that signals reach the program. */
async function traced(t: Scope, directory: string, name: string, flags: readonly string[]) {
  const file = join(directory, '..', `${name}.strace`)
  return { file, ...spawnServer(t, directory, { flags, isBare: true, under: [STRACE, '-D', '-f', '-q', '-o', file] }) }
}

test('the units allow what the server and its backup do, and both write to their own directories only', {
  skip: skipTraces,
}, async (t) => {
  const root = await temporaryDirectory(t)
  const [state, backup] = [join(root, 'state'), join(root, 'backup')]
  mkdirSync(state)
  mkdirSync(join(state, 'wwwroot'))
  copyFileSync(fileURLToPath(import.meta.url), join(state, 'wwwroot', 'file.txt'))
  const flags = ['--file', 'db.json', '--urls', 'http://localhost:0', '--Journal.SegmentBytes', '2000', '--watch']
  const server = await traced(t, state, 'server', [...flags, '--Journal.Compress', '0'])
  const url = (await server.listening()) ?? assert.fail(server.stderr())
  await storeBuilt(url)
  for (let n = 0; n < 20; n++) {
    const response = await fetch(`${url}/api/things`, json('POST', { n, text: 'x'.repeat(200) }))
    assert.equal(response.status, 201)
  }
  for (const path of [
    '/api/things?n_gt=3&sort=-n',
    '/api/things?asOf=3',
    '/events',
    '/metrics',
    '/file.txt',
    '/swagger/',
  ]) {
    assert.equal((await fetch(url + path)).status, 200, path)
  }
  const saved = await traced(t, state, 'backup', ['backup', '--file', 'db.json', '--to', backup])
  assert.equal((await saved.ended()).code, 0, saved.stderr())
  server.process.kill('SIGTERM')
  assert.equal((await server.ended()).code, 0, server.stderr())

  for (const [unit, { file, process }, place] of [
    [UNIT, server, state],
    [BACKUP, saved, backup],
  ] as const) {
    // The tracer ends after the program, and pads its process id.
    const ended = new RegExp(`^${process.pid} +\\+{3} exited with 0 `, 'm')
    await until('the end of the trace', () => ended.test(readFileSync(file, 'utf8')))
    const trace = readTrace(file, state)
    const allowed = allowedCalls(unit)
    assert.ok(trace.calls.size > 30 && allowed.size > 100)
    assert.deepEqual(
      [...trace.calls].filter((call) => !allowed.has(call)),
      [],
      unit,
    )
    assert.ok(trace.written.length > 3)
    assert.deepEqual(
      trace.written.filter((path) => !path.startsWith(`${place}`) && path !== '/dev/null'),
      [],
      unit,
    )
  }
  const families = valuesOf(UNIT, 'RestrictAddressFamilies')
  assert.deepEqual(
    [...readTrace(server.file, state).families].filter((family) => !families.includes(family)),
    [],
  )
})
