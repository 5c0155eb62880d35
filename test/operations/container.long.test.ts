import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { DEADLINE_MS, fetch } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type RunningProcess, startProcess } from '../support/process.ts'
import { json, ofOneServer } from '../support/server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
/** A machine that is busy takes long to install. */
const NPM_DEADLINE_MS = 4 * 60_000
const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED/

/** Only root may change the root of a process. */
function whyNot(): string | false {
  const { status, stderr } = spawnSync('unshare', ['--mount', 'true'], { encoding: 'utf8', timeout: DEADLINE_MS })
  if (process.getuid?.() === 0 && status === 0) return false
  const missing = `no directory can be made the root of a process (it takes root): ${stderr}`.trim()
  if (process.env.CI === 'true') throw new Error(missing)
  return missing
}

/** A stage of a Dockerfile: a directory that becomes the root, with this machine's /usr and Node as the base image. */
interface Stage {
  readonly root: string
  workdir: string
  user: string
  env: string[]
  volumes: string[]
  healthcheck: string[]
  entrypoint: string[]
  cmd: string[]
}

const BASE = ['usr', 'etc', 'proc', 'dev', 'node', 'npm', 'tmp']

async function stageOf(t: TestContext): Promise<Stage> {
  const directory = await temporaryDirectory(t)
  chmodSync(directory, 0o755)
  for (const name of BASE) mkdirSync(join(directory, name))
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(directory, name))
  return { root: directory, workdir: '/', user: '0:0', env: [], volumes: [], healthcheck: [], entrypoint: [], cmd: [] }
}

const quoted = (words: readonly string[]): string => words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')

interface ContainerOptions {
  /** With a root that is read-only but for these directories: the path in the container, and where it is. */
  readonly volumes?: ReadonlyMap<string, string>
}

/** Runs a command as Docker would with `--read-only`, `--cap-drop ALL` and `no-new-privileges`, if it has volumes. */
function inContainer(
  t: TestContext,
  stage: Stage,
  command: readonly string[],
  { volumes }: ContainerOptions = {},
): RunningProcess {
  const { root: image, workdir, user, env } = stage
  const cache = spawnSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8', timeout: DEADLINE_MS }).stdout.trim()
  const [uid, gid] = user.split(':')
  const mounts = [
    `mount --bind ${image} ${image}`,
    ...(volumes ? [`mount -o remount,bind,ro ${image}`] : []),
    `mount -t tmpfs tmpfs ${image}/tmp`,
    ...['usr', 'etc'].map((name) => `mount --bind -o ro /${name} ${image}/${name}`),
    ...['proc', 'dev'].map((name) => `mount --rbind /${name} ${image}/${name}`),
    `mount --bind -o ro ${dirname(dirname(process.execPath))} ${image}/node`,
    ...(volumes ? [] : [`mkdir -p ${cache}`, `mount --bind ${cache} ${image}/npm`]),
    ...Array.from(volumes ?? [], ([path, place]) => `mount --bind ${place} ${image}${path}`),
  ]
  const privileges = ['--clear-groups', '--inh-caps=-all', '--bounding-set=-all', '--no-new-privs']
  const as = user === '0:0' ? [] : ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, ...privileges]
  const words = ['chroot', image, ...as, 'env', '-C', workdir, ...env, ...command]
  const script = `${mounts.join(' && ')} && exec ${quoted(words)}`
  const own = {
    PATH: '/node/bin:/usr/sbin:/usr/bin',
    HOME: '/tmp',
    npm_config_cache: '/npm',
    npm_config_audit: 'false',
  }
  return startProcess(t, ['unshare', '--mount', 'sh', '-c', script], {
    env: { ...own, npm_config_fund: 'false', npm_config_prefer_offline: 'true' },
  })
}

/** Follows a Dockerfile of the checkout. An instruction that is not listed here, such as ADD, is an error. */
async function build(t: TestContext, dockerfile: string): Promise<{ readonly image: Stage; readonly bases: string[] }> {
  const context = read(`${dockerfile}.dockerignore`).split('\n')
  const stages = new Map<string, Stage>()
  const bases: string[] = []
  let stage = await stageOf(t)
  for (const line of read(dockerfile)
    .split('\n')
    .filter((text) => text !== '' && !text.startsWith('#'))) {
    const [, instruction = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? assert.fail(line)
    const words = rest.split(' ')
    if (instruction === 'FROM') {
      stage = await stageOf(t)
      bases.push(words[0] ?? '')
      stages.set(words[2] ?? '', stage)
    } else if (instruction === 'WORKDIR') {
      stage.workdir = rest
      mkdirSync(join(stage.root, rest), { recursive: true })
    } else if (instruction === 'COPY') copy(stage, words, stages, context)
    else if (instruction === 'RUN') await runIn(t, stage, rest)
    else if (instruction === 'ENV') stage.env = words
    else if (instruction === 'USER') stage.user = rest
    else if (instruction === 'VOLUME') stage.volumes = JSON.parse(rest)
    else if (instruction === 'HEALTHCHECK') stage.healthcheck = JSON.parse(rest.replace('CMD ', ''))
    else if (instruction === 'ENTRYPOINT') stage.entrypoint = JSON.parse(rest)
    else if (instruction === 'CMD') stage.cmd = JSON.parse(rest)
    else assert.equal(instruction, 'EXPOSE')
  }
  return { image: stage, bases }
}

function copy(
  stage: Stage,
  words: readonly string[],
  stages: ReadonlyMap<string, Stage>,
  context: readonly string[],
): void {
  const [, from] = /^--from=(\w+)$/.exec(words[0] ?? '') ?? []
  const sources = words.slice(from === undefined ? 0 : 1, -1)
  const to = join(stage.root, stage.workdir, words.at(-1) ?? '')
  for (const source of sources) {
    if (from === undefined) assert.ok(context.includes(`!${source}`), `${source} is part of the build context`)
    const path = join(from === undefined ? root : (stages.get(from)?.root ?? assert.fail(from)), source)
    const isInto = words.at(-1)?.endsWith('/') && !statSync(path).isDirectory()
    cpSync(path, isInto ? join(to, basename(source)) : to, { recursive: true, verbatimSymlinks: true })
  }
}

async function runIn(t: TestContext, stage: Stage, command: string): Promise<void> {
  const { ended, output } = inContainer(t, stage, ['sh', '-c', command])
  const { code } = await ended(NPM_DEADLINE_MS)
  if (code !== 0 && UNREACHABLE.test(output()) && process.env.CI !== 'true') throw new Unreachable()
  assert.equal(code, 0, `RUN ${command}\n${output()}`)
}

class Unreachable extends Error {}

test('the image of examples/operations is built without Docker, and serves without root on a read-only root', {
  skip: ofOneServer('it is one server') || whyNot(),
}, async (t) => {
  const built = await build(t, 'examples/operations/Dockerfile').catch((error) => {
    if (error instanceof Unreachable) return undefined
    throw error
  })
  if (!built) return t.skip('the registry cannot be reached')
  const { image, bases } = built
  const compose = read('examples/operations/compose.yaml')

  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
  for (const base of bases) {
    const [, major = ''] = /^node:(\d+)-/.exec(base) ?? []
    assert.ok(engines.node.includes(`^${major}`), `${base} is a supported version`)
  }
  assert.deepEqual(
    Array.from(compose.matchAll(/^ {6}- \w+:(\/\w+)$/gm), ([, path]) => path),
    image.volumes,
  )
  for (const line of ['read_only: true', '- ALL', '- no-new-privileges:true', '- 127.0.0.1:57602:57602']) {
    assert.ok(compose.includes(`${line}\n`), line)
  }

  // Docker fills a new volume with what the image has at its path: here, the owner and the mode.
  const place = await temporaryDirectory(t)
  const volumes = new Map(image.volumes.map((path) => [path, join(place, path)]))
  for (const [path, own] of volumes) spawnSync('cp', ['-a', image.root + path, own], { timeout: DEADLINE_MS })
  const run = (command: readonly string[]): RunningProcess => inContainer(t, image, command, { volumes })

  const probe = run(['sh', '-c', 'id -u; touch x || echo refused; grep CapBnd /proc/self/status; ls node_modules'])
  assert.equal((await probe.ended()).code, 0, probe.output())
  assert.match(probe.stdout(), /^1000\nrefused\nCapBnd:\s0+\n/)
  assert.doesNotMatch(probe.stdout(), /typescript|esbuild|swagger-ui-dist/)

  assert.deepEqual(image.cmd, ['--file', '/data/db.json', '--urls', 'http://*:57602'])
  const server = run([...image.entrypoint, '--file', '/data/db.json', '--urls', 'http://127.0.0.1:0'])
  const [, url = ''] = (await server.printed(/listens on (\S+)\n/)) ?? assert.fail(server.output())
  assert.equal((await fetch(`${url}/api/things`, json('POST', { n: 1 }))).status, 201)
  for (const path of ['/collections.html', '/swagger/', '/client/index.js']) {
    assert.equal((await fetch(url + path)).status, 200, path)
  }
  const health = run(image.healthcheck.map((word) => word.replace('http://127.0.0.1:57602', url)))
  assert.equal((await health.ended()).code, 0, health.output())

  const [, documented = ''] = /exec recollect (node .*)$/m.exec(read('docs/operations.md')) ?? []
  const saved = run(documented.split(' '))
  assert.equal((await saved.ended()).code, 0, saved.output())
  assert.match(saved.stdout(), /^\/backups\/db has the journal up to position 2;/)
  server.process.kill('SIGTERM')
  assert.deepEqual(await server.ended(), { code: 0, signal: null }, server.output())
  assert.equal(statSync(join(place, 'data/db.json')).uid, 1000)
})
