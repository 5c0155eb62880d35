import assert from 'node:assert/strict'
import { lstat, mkdir, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { fetch, once, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort } from '../support/process.ts'
import { json, runToEnd, startProgram } from '../support/server.ts'

const packaged = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const ANY_PORT = ['--urls', 'http://127.0.0.1:0']

test('--help and --version print to standard output, and change nothing', async (t) => {
  const directory = await temporaryDirectory(t)
  const help = await runToEnd(t, directory, ['--help'])
  assert.deepEqual([help.code, help.stderr], [0, ''])
  assert.match(help.stdout, /--file <path>/)
  const version = await runToEnd(t, directory, ['--version'])
  const { version: expected } = JSON.parse(await readFile(packaged('package.json'), 'utf8')) as { version: string }
  assert.deepEqual(version, { code: 0, stdout: `${expected}\n`, stderr: '' })
  assert.deepEqual(await readdir(directory), [])
})

test('mistakes in flags, environment and file are all reported on standard error, with exit code 2; nothing is changed', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'appsettings.json'), '{"Common": {"EagerDataReload": "yes"}, "Others": {}}')
  const flags = ['--file', 'a.json', '--file', 'b.json', '--prot=1', '--urls', 'nowhere', 'stray']
  const { code, stdout, stderr } = await runToEnd(t, directory, flags, { Limits__PageSize: 'many' })
  assert.equal(code, 2)
  assert.equal(stdout, '')
  for (const mistake of ['--file', '--prot', '--urls', 'stray', 'Limits__PageSize', 'EagerDataReload', 'Others']) {
    assert.ok(stderr.includes(mistake), `${mistake} in ${stderr}`)
  }
  assert.equal(stderr.trimEnd().split('\n').length, 7)
  assert.deepEqual(await readdir(directory), ['appsettings.json'])
})

test('init writes a sample that can be served at once, and overwrites nothing', async (t) => {
  const directory = await temporaryDirectory(t)
  const { code, stdout } = await runToEnd(t, directory, ['init'])
  assert.equal(code, 0)
  assert.match(stdout, /Wrote \S+\/db\.json/)
  const sample = await readFile(join(directory, 'db.json'), 'utf8')
  const server = await startProgram(t, {
    directory,
    isBare: true,
    flags: ['db.json', '-w', '--port', '0', '--host', '127.0.0.1'],
  })
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:/)
  const { posts } = JSON.parse(sample) as { posts: object[] }
  assert.deepEqual(await (await server.fetch('/api/posts')).json(), posts)
  assert.equal((await server.fetch('/api/posts', json('POST', { title: 'third' }))).status, 201)
  await writeFile(join(directory, 'db.json'), '{"posts": [{"id": 9}]}')
  await until('the edit to be merged', async () => (await server.fetch('/api/posts/9')).status === 200)
  assert.equal(await server.stop(), 0)

  const again = await runToEnd(t, directory, ['init', 'db.json'])
  assert.deepEqual([again.code, /exists already/.test(again.stderr)], [1, true])
  await rm(join(directory, 'db.json'))
  const beside = await runToEnd(t, directory, ['init'])
  assert.deepEqual([beside.code, /db\.journal is the journal of/.test(beside.stderr)], [1, true])
  assert.equal((await runToEnd(t, directory, ['init', 'new/other.json'])).code, 0)
  assert.equal(await readFile(join(directory, 'new/other.json'), 'utf8'), sample)
})

test('the first log line has the version, the files and the settings that differ from their defaults', async (t) => {
  const directory = await temporaryDirectory(t)
  const flags = [...ANY_PORT, 'db.json', '--Limits.PageSize', '7', '--Authentication.ApiKey', 'a secret']
  const server = await startProgram(t, { directory, isBare: true, flags })
  const { version, node, file, journal, settings } = JSON.parse(server.stderr().split('\n')[0] ?? '') as Record<
    string,
    unknown
  >
  assert.deepEqual([node, file, journal], [process.version, server.file, join(directory, 'db.journal')])
  assert.match(String(version), /^\d+\.\d+\.\d+/)
  assert.deepEqual(settings, { 'Limits.PageSize': 7, 'Authentication.ApiKey': '***' })
  assert.match(server.stderr(), /db\.json does not exist and begins empty/)
})

test('with Log.Format text the log has a line per request, and standard output shows the address of the pages', async (t) => {
  const server = await startProgram(t, { data: { posts: [] }, flags: ['--Log.Format', 'text'] })
  assert.equal((await server.fetch('/api/posts?secret=1')).status, 200)
  await until('the request to be logged', () => /^\d\d:\d\d:\d\d GET \/api\/posts 200 \d+ ms$/m.test(server.stderr()))
  await until('the pages to be told', () => server.stdout().includes(`Pages    ${server.url}/\n`))
  assert.doesNotMatch(server.stderr(), /secret|\{"level"/)
})

test('all mistakes of a data file are reported, one a line, with exit code 2; nothing is changed', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'db.json'), '{"title": "x", "tags": [1, 2], "posts": [{"id": 1}, {"id": 1}]}')
  const { code, stderr } = await runToEnd(t, directory, [...ANY_PORT, 'db.json'])
  assert.equal(code, 2)
  const lines = stderr.split('\n').filter((line) => line.startsWith('recollect: '))
  assert.deepEqual(
    lines.map((line) => line.split(': ')[1]),
    ['At /title', 'At /tags/0', 'At /posts/1/id'],
  )
  assert.match(stderr, /write "title": \[\{"value": …\}\] or \{"value": …\}\.$/m)
  assert.deepEqual(await readdir(directory), ['db.json'])
})

test('--static must name an existing directory, which is served before the packaged pages', async (t) => {
  const directory = await temporaryDirectory(t)
  const flags = [...ANY_PORT, 'db.json', '--static', 'public']
  const missing = await runToEnd(t, directory, flags)
  assert.deepEqual([missing.code, /public, does not exist/.test(missing.stderr)], [2, true])
  assert.deepEqual(await readdir(directory), [])
  await mkdir(join(directory, 'public'))
  await writeFile(join(directory, 'public', 'index.html'), '<p>public</p>')
  const server = await startProgram(t, { directory, isBare: true, flags })
  assert.equal(await (await server.fetch('/')).text(), '<p>public</p>')
  assert.equal((await server.fetch('/collections.html')).status, 200)
})

test('an invalid schema is reported by name, with exit code 2; nothing is changed', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'schema.json'), '{"type": "objekt"}')
  const flags = [...ANY_PORT, '--Api.Schemas.sensors', 'schema.json', '--Api.Schemas.others=schema.json']
  const { code, stderr } = await runToEnd(t, directory, flags)
  assert.equal(code, 2)
  assert.match(stderr, /The schema of "sensors" is not a usable JSON Schema/)
  assert.match(stderr, /The schema of "others" is not a usable JSON Schema/)
  assert.doesNotMatch(stderr, /\n\s+at /)
  assert.deepEqual(await readdir(directory), ['schema.json'])
})

test('a start without arguments copies the packaged sample and serves it as its data file', async (t) => {
  const directory = await temporaryDirectory(t)
  const sample = await readFile(packaged('data/sensors.json'), 'utf8')
  const serve = () => startProgram(t, { directory, isBare: true, flags: ANY_PORT })
  const server = await serve()
  const file = join(directory, 'data', 'datastore.json')
  assert.equal(await readFile(file, 'utf8'), sample)
  assert.deepEqual(await (await server.fetch('/api')).json(), Object.keys(JSON.parse(sample) as object))
  assert.equal((await server.fetch('/api/more', json('POST', {}))).status, 201)
  assert.equal(await server.stop(), 0)
  assert.deepEqual((await readdir(join(directory, 'data'))).sort(), [
    '.recollect',
    'datastore.journal',
    'datastore.json',
  ])
  const again = await serve()
  const collections = (await (await again.fetch('/api')).json()) as string[]
  assert.ok(collections.includes('more'))
  assert.equal(await readFile(packaged('data/sensors.json'), 'utf8'), sample)
})

test('a missing data file begins empty, in directories that are created', async (t) => {
  const directory = await temporaryDirectory(t)
  const flags = [...ANY_PORT, '--file', 'a/b/db.json', '--journal', 'c/d']
  const server = await startProgram(t, { directory, isBare: true, flags })
  assert.deepEqual(await (await server.fetch('/api')).json(), [])
  assert.equal(await readFile(join(directory, 'a/b/db.json'), 'utf8'), '{}\n')
  assert.ok((await readdir(join(directory, 'c/d'))).includes('00000000000000000001.ndjson'))
})

test('settings come from flag, environment and the file of the working directory, in this order', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'appsettings.json'), '{"Api": {"UpsertOnPut": true}, "Limits": {"PageSize": 5}}')
  const env = { Api__ClientIdsOnPost: 'true', Limits__PageSize: '6' }
  const server = await startProgram(t, { directory, env, flags: ['--Limits.PageSize', '7'] })
  assert.equal((await server.fetch('/api/things/a', json('PUT', {}))).status, 201)
  assert.deepEqual(await (await server.fetch('/api/things', json('POST', { id: 'b' }))).json(), { id: 'b' })
  assert.equal((await server.fetch('/api/things?page=1&pageSize=7')).status, 200)
  assert.equal((await server.fetch('/api/things?page=1&pageSize=8')).status, 400)
})

test('a time for whole requests that is shorter than that for their headers applies to both', async (t) => {
  const server = await startProgram(t, { data: { a: [] }, flags: ['--Limits.RequestSeconds', '10'] })
  assert.equal((await server.fetch('/api/a')).status, 200)
})

test('one line lists the addresses with their ports, and every address serves the same', async (t) => {
  const directory = await temporaryDirectory(t)
  const urls = 'http://127.0.0.1:0;http://127.0.0.2:0;http://*:0'
  const server = await startProgram(t, { directory, isBare: true, flags: ['--file', 'db.json', '--urls', urls] })
  const lines = server.stdout().split('\n')
  assert.equal(lines.length, 2)
  const [first = '', second = '', every = '', ...others] = lines[0]?.match(/http:\/\/\S+/g) ?? []
  assert.deepEqual(others, [])
  assert.match(first, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
  assert.match(second, /^http:\/\/127\.0\.0\.2:[1-9]\d*$/)
  const { port } = new URL(every)
  assert.equal((await fetch(`${first}/api/things`, json('POST', { n: 1 }))).status, 201)
  for (const url of [first, second, `http://127.0.0.1:${port}`, `http://127.0.0.3:${port}`]) {
    assert.equal((await fetch(`${url}/api/things/0`)).status, 200, url)
  }
  await assert.rejects(fetch(`http://127.0.0.3:${new URL(first).port}/`), 'an address that was not asked for')
})

test('a port in use is reported with exit code 1, and the journal is free again', async (t) => {
  const directory = await temporaryDirectory(t)
  const other = createServer()
  const port = await freePort()
  other.listen(port, '127.0.0.1')
  await once(other, 'listening')
  const flags = ['--file', 'db.json', '--urls']
  const { code, stdout, stderr } = await runToEnd(t, directory, [
    ...flags,
    `http://127.0.0.1:0;http://127.0.0.1:${port}`,
  ])
  other.close()
  await once(other, 'close')
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(
    stderr,
    new RegExp(`http://127\\.0\\.0\\.1:${port} is in use by another program; --port names another port`),
  )
  assert.doesNotMatch(stderr, /\n\s+at /)
  assert.deepEqual(await readdir(directory), [], 'neither data file nor journal was begun')
  const server = await startProgram(t, { directory, isBare: true, flags: [...flags, `http://127.0.0.1:${port}`] })
  assert.equal(server.url, `http://127.0.0.1:${port}`)
})

test('wwwroot of the working directory is served before the packaged pages', async (t) => {
  const server = await startProgram(t)
  assert.equal(await (await server.fetch('/')).text(), await readFile(packaged('dist/pages/home.html'), 'utf8'))
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'wwwroot'))
  await writeFile(join(directory, 'wwwroot', 'index.html'), '<p>mine</p>')
  const own = await startProgram(t, { directory })
  assert.equal(await (await own.fetch('/')).text(), '<p>mine</p>')
})

test('a data file that is a directory is reported with its path and exit code 2, and nothing else is created', async (t) => {
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'db.json'))
  const { code, stderr } = await runToEnd(t, directory, [...ANY_PORT, '--file', 'db.json'])
  assert.equal(code, 2, stderr)
  assert.match(stderr, /directory/)
  assert.ok(stderr.includes(await realpath(join(directory, 'db.json'))), stderr)
  assert.doesNotMatch(stderr, /\n\s+at /)
  assert.deepEqual(await readdir(directory), ['db.json'])
})

test('a data file that is a dangling symbolic link is created at its target', async (t) => {
  const directory = await temporaryDirectory(t)
  await symlink('second.json', join(directory, 'db.json'))
  await symlink(join('real', 'target.json'), join(directory, 'second.json'))
  const server = await startProgram(t, { directory })
  assert.equal((await server.fetch('/api/things', json('POST', {}))).status, 201)
  assert.equal(await server.stop(), 0)
  for (const link of ['db.json', 'second.json']) assert.ok((await lstat(join(directory, link))).isSymbolicLink(), link)
  const text = await readFile(join(directory, 'real', 'target.json'), 'utf8')
  assert.deepEqual(JSON.parse(text), { things: [{ id: 0 }] })
})

test('a data file that is a cycle of symbolic links is reported with exit code 1, and nothing is created', async (t) => {
  const directory = await temporaryDirectory(t)
  await symlink('other.json', join(directory, 'db.json'))
  await symlink('db.json', join(directory, 'other.json'))
  const { code, stderr } = await runToEnd(t, directory, [...ANY_PORT, '--file', 'db.json'])
  assert.equal(code, 1, stderr)
  assert.match(stderr, /symbolic links.*db\.json/)
  assert.deepEqual((await readdir(directory)).sort(), ['db.json', 'other.json'])
})

test('created files are readable only by the owner, whatever the umask', async (t) => {
  const directory = await temporaryDirectory(t)
  const users = '[{"Username": "anna", "Password": "hers"}]'
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.Users', users]
  const schemes = ['--Authentication.AuthenticationType', 'basic,token']
  const server = await startProgram(t, {
    directory,
    isBare: true,
    flags: [...ANY_PORT, '--file', 'made/db.json', ...flags, ...schemes],
  })
  const anna = { Authorization: `Basic ${Buffer.from('anna:hers').toString('base64')}` }
  assert.equal((await server.fetch('/api/things', json('POST', {}, anna))).status, 201)
  assert.equal(await server.stop(), 0)
  const backup = ['backup', '--file', 'made/db.json', '--to', 'copy']
  assert.equal((await runToEnd(t, directory, backup)).code, 0)
  assert.equal((await runToEnd(t, directory, ['restore', 'again/db.json', '--from', 'copy'])).code, 0)
  const found = await readdir(directory, { recursive: true, withFileTypes: true })
  for (const entry of found) {
    const path = join(entry.parentPath, entry.name)
    assert.equal((await stat(path)).mode & 0o777, entry.isDirectory() ? 0o700 : 0o600, path)
  }
  const names = found.map(({ name }) => name)
  for (const name of ['db.json', '.recollect', 'lock', 'token.secret', '00000000000000000001.ndjson', 'store.mdb']) {
    assert.ok(names.includes(name), name)
  }
})
