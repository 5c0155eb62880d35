import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { fetch } from './support/deadline.ts'
import { type Scope, temporaryDirectory } from './support/directory.ts'
import { startProcess } from './support/process.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }

/** Left out of the copy that is packed: built anew, linked, or made by running the program. */
const NOT_COPIED = ['.git', 'dist', 'node_modules']

/** A machine that is busy takes long to pack and to install. */
const NPM_DEADLINE_MS = 4 * 60_000

/** A program of somebody who has installed the package. */
const USE = `
import { connect, type LiveList } from 'recollect/client'

interface Reading {
  id: number
  mac: string
  battery?: number
}

const client = connect('SERVER')
const readings = client.collection<Reading>('readings')
await readings.create({ mac: 'A' })
const list: LiveList<Reading> = readings.where({ mac: ['A', 'B'] }).sort('-battery', 'mac').live()
for await (const { entered, updated } of list) {
  for (const { id } of entered) await readings.item(id).patch({ battery: 2 })
  for (const { item } of updated) {
    console.log(item.mac, item.battery)
    list.close()
  }
}
client.close()
// @ts-expect-error: there is no such field
readings.where({ batery_lt: 3000 })
// @ts-expect-error: a mac is text
const wrong = (): unknown => readings.item(1).patch({ mac: 7 })
`

/** One that starts a server itself. */
const OWN_SERVER = `
import { start, type KoaMiddleware, type RunningServer } from 'recollect'

const hello: KoaMiddleware = (ctx, next) => {
  if (ctx.path !== '/hello') return next()
  ctx.body = { hello: ctx.get('X-Name') }
}
const answers = async (server: RunningServer, path: string): Promise<string> =>
  (await fetch(server.url + path, { headers: { 'X-Name': 'Ada' } })).text()
{
  await using server = await start({
    data: { people: [{ id: 1 }] },
    settings: { Limits: { PageSize: 10 } },
    middleware: [hello, async (ctx, next) => { ctx.set('X-Seen', '1'); await next() }],
  })
  for (const path of ['/hello', '/api/people']) console.log(await answers(server, path))
}
// @ts-expect-error: a port is a number
export const wrong = () => start({ port: '80' })
`

async function run(t: Scope, directory: string, ...command: readonly string[]) {
  const { ended, stdout, stderr } = startProcess(t, command, { cwd: directory })
  const { code } = await ended(NPM_DEADLINE_MS)
  return { code, stdout: stdout(), stderr: stderr() }
}

/** Packs a copy of the project, so that the build that packing runs replaces nothing that other tests are using. */
async function pack(t: TestContext): Promise<{ readonly tarball: string; readonly files: readonly string[] }> {
  const copy = await temporaryDirectory(t)
  for (const name of readdirSync(root)) {
    if (!NOT_COPIED.includes(name)) cpSync(join(root, name), join(copy, name), { recursive: true })
  }
  writeFileSync(join(copy, 'data', 'datastore.json'), '{"private": []}')
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const { code, stdout, stderr } = await run(t, copy, 'npm', 'pack', '--json')
  assert.equal(code, 0, stderr)
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [{ filename: string; files: { path: string }[] }]
  return { tarball: join(copy, packed.filename), files: packed.files.map(({ path }) => path) }
}

const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED/

test('the package contains the program and its documents, and installs', async (t) => {
  const { tarball, files } = await pack(t)

  await t.test('it contains the program, its pages, the sample, the settings and the documents', () => {
    const swagger = dirname(files.find((path) => path.endsWith('/swagger-ui.min.css')) ?? '')
    for (const path of [
      'package.json',
      'README.md',
      'CHANGELOG.md',
      'LICENSE',
      'appsettings.json',
      'data/sensors.json',
      'dist/main.js',
      'dist/library/index.js',
      'dist/library/index.d.ts',
      'dist/client/index.js',
      'dist/client/index.d.ts',
      'dist/client/react.js',
      'dist/client/react.d.ts',
      'dist/pages/client/index.js',
      'dist/pages/client/index.js.br',
      'dist/pages/client/index.js.gz',
      `${swagger}/swagger-ui-bundle.js`,
      `${swagger}/swagger-ui-bundle.js.br`,
      `${swagger}/swagger-ui-bundle.js.gz`,
      `${swagger}/LICENSE`,
      'docs/api.md',
      'docs/client.md',
      'docs/design.md',
      'docs/journal.md',
      'docs/library.md',
      'docs/security.md',
      'dist/pages/uplot/uPlot.esm.js',
      'dist/pages/uplot/LICENSE',
      'dist/pages/home.html',
      'dist/pages/collections.html',
    ]) {
      assert.ok(files.includes(path), path)
    }
  })

  await t.test('it contains no sources, tests, tools or private data', () => {
    const roots = new Set(files.map((path) => path.split('/')[0] as string))
    assert.deepEqual(
      [...roots].sort(),
      ['CHANGELOG.md', 'LICENSE', 'README.md', 'appsettings.json', 'data', 'dist', 'docs', 'package.json'].sort(),
    )
    assert.deepEqual(
      files.filter((path) => path.startsWith('data/')),
      ['data/sensors.json'],
    )
    assert.deepEqual(
      files.filter((path) => /(?<!\.d)\.ts$|\.test\.|\.map$/.test(path)),
      [],
    )
  })

  const place = await temporaryDirectory(t)
  writeFileSync(join(place, 'package.json'), '{"private": true}')
  const installed = await run(
    t,
    place,
    'npm',
    'install',
    '--no-save',
    '--omit=dev',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    tarball,
  )
  if (installed.code !== 0 && UNREACHABLE.test(installed.stderr) && process.env.CI !== 'true') {
    await t.test('the installed program runs', { skip: 'the registry cannot be reached' })
    return
  }
  assert.equal(installed.code, 0, installed.stderr)

  await t.test('it installs no development dependency', () => {
    const packages = readdirSync(join(place, 'node_modules'))
    assert.ok(packages.includes('koa'))
    assert.deepEqual(
      packages.filter((name) =>
        ['typescript', 'tsx', '@biomejs', 'swagger-ui-dist', '@scarf', 'esbuild'].includes(name),
      ),
      [],
    )
  })

  await t.test('npx recollect --version prints the version', async () => {
    const { code, stdout, stderr } = await run(t, place, 'npx', '--no-install', 'recollect', '--version')
    assert.deepEqual({ code, stdout }, { code: 0, stdout: `${version}\n` }, stderr)
  })

  await t.test('npx recollect serves from any directory, with its pages', async (inner) => {
    const url = await serve(inner, place)
    const api = await fetch(`${url}/api`)
    assert.equal(api.status, 200)
    assert.deepEqual(await api.json(), [])

    const page = await fetch(`${url}/swagger/`)
    assert.equal(page.status, 200)
    const html = await page.text()
    const assets = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address as string)
    assert.ok(assets.length >= 3, 'the page has its style and its scripts')
    for (const address of ['/openapi.json', '/collections.html', ...assets]) {
      const answer = await fetch(new URL(address, `${url}/swagger/`))
      assert.equal(answer.status, 200, address)
      assert.ok((await answer.arrayBuffer()).byteLength > 0, address)
    }
    const pages = ['/', '/collections.html', '/sensors.html', '/journal.html']
    assert.equal((await loaded(url, pages)).size, 2 * pages.length, 'each page has a script')
  })

  await t.test('a typed program can start its server without the types of Node and Koa', async () => {
    writeFileSync(join(place, 'server.mts'), OWN_SERVER)
    const compiler = join(root, 'node_modules/typescript/bin/tsc')
    const flags = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,dom', '--types', '']
    const compiled = await run(t, place, process.execPath, compiler, ...flags, 'server.mts')
    assert.deepEqual(compiled, { code: 0, stdout: '', stderr: '' })
    const used = await run(t, place, process.execPath, 'server.mjs')
    assert.deepEqual(used, { code: 0, stdout: '{"hello":"Ada"}\n[{"id":1}]\n', stderr: '' })
  })

  await t.test('a typed program can import its client, which checks the types of items', async (inner) => {
    const url = await serve(inner, place)
    writeFileSync(join(place, 'use.mts'), USE.replace('SERVER', url))
    const compiler = join(root, 'node_modules/typescript/bin/tsc')
    const flags = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,dom', '--types', '']
    const compiled = await run(t, place, process.execPath, compiler, ...flags, 'use.mts')
    assert.deepEqual(compiled, { code: 0, stdout: '', stderr: '' })
    const used = await run(t, place, process.execPath, 'use.mjs')
    assert.deepEqual(used, { code: 0, stdout: 'A 2\n', stderr: '' })
  })
})

/** All that pages load, each of it there: styles, scripts, and what these import. */
async function loaded(url: string, pages: readonly string[]): Promise<ReadonlySet<string>> {
  const seen = new Set<string>()
  const waiting = pages.map((page) => new URL(page, url).href)
  for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
    if (seen.has(address)) continue
    seen.add(address)
    const answer = await fetch(address)
    assert.equal(answer.status, 200, address)
    const named = /\.html$|\/$/.test(address) ? /(?:src|href)="([^"#?]+\.(?:js|css|svg))"/g : /^import [^']*'([^']+)'/gm
    for (const [, target = ''] of (await answer.text()).matchAll(named)) waiting.push(new URL(target, address).href)
  }
  return seen
}

test('the lock file lists every optional dependency for every platform, as npm ci needs', () => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>
  }
  const wanted = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ path, name })),
  )
  assert.ok(wanted.length > 20)
  assert.deepEqual(
    wanted.filter(({ path, name }) => !packages[`node_modules/${name}`] && !packages[`${path}/node_modules/${name}`]),
    [],
  )
})

/** Serves as a user does. npx runs the program as a child, so the signal goes to the group. */
async function serve(t: TestContext, directory: string): Promise<string> {
  const command = ['npx', '--no-install', 'recollect', '--file', 'x.json', '--urls', 'http://127.0.0.1:0']
  const started = startProcess(t, command, { cwd: directory, isGroup: true })
  const [, url] = (await started.printed(/listens on (\S+)\n/)) ?? []
  if (url === undefined) throw new Error(`it ended:\n${started.output()}`)
  return url
}
