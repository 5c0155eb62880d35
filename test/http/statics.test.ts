import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ownPage } from '../../src/http/docs.ts'
import { fetch } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { swaggerAsset } from '../support/pages.ts'
import { send } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'

const directory = await temporaryDirectory({ after })
const root = join(directory, 'wwwroot')
const outside = join(directory, 'outside')
for (const path of ['pages', 'api', 'linked-index', 'empty']) await mkdir(join(root, path), { recursive: true })
await mkdir(outside)
await writeFile(join(outside, 'secret.txt'), 'secret')
await writeFile(join(outside, 'index.html'), 'secret')
await writeFile(join(root, 'index.html'), '<h1>home</h1>')
await writeFile(join(root, 'pages', 'index.html'), '<h1>pages</h1>')
await writeFile(join(root, 'pages', 'a b é.txt'), 'spaces')
await writeFile(join(root, 'script.js'), 'let a')
await writeFile(join(root, 'script-0123ABCD.js'), 'let b')
await writeFile(join(root, 'script.js.gz'), 'not gzip')
await writeFile(join(root, '.hidden'), 'secret')
await writeFile(join(root, 'api', 'things'), 'shadowed')
await symlink(join(root, 'script.js'), join(root, 'inner-link.js'))
await symlink(join(outside, 'secret.txt'), join(root, 'link.txt'))
await symlink(outside, join(root, 'link'))
await symlink(join(outside, 'index.html'), join(root, 'linked-index', 'index.html'))
await symlink(join(directory, 'wwwroot-beside'), join(root, 'beside'))
await mkdir(join(directory, 'wwwroot-beside'))
await writeFile(join(directory, 'wwwroot-beside', 'index.html'), 'secret')
const { url, stderr } = await startProgram({ after }, { directory, data: { things: [] } })

const SERVED: readonly (readonly [string, string, string])[] = [
  ['/', 'text/html; charset=utf-8', '<h1>home</h1>'],
  ['/index.html', 'text/html; charset=utf-8', '<h1>home</h1>'],
  ['/pages/', 'text/html; charset=utf-8', '<h1>pages</h1>'],
  ['/pages/a%20b%20%C3%A9.txt', 'text/plain; charset=utf-8', 'spaces'],
  ['/script.js', 'text/javascript; charset=utf-8', 'let a'],
  ['/inner-link.js', 'text/javascript; charset=utf-8', 'let a'],
]

for (const [path, type, text] of SERVED) {
  test(`${path} is served from wwwroot, and HEAD gets its headers`, async () => {
    const got = await send(url, 'GET', path, { headers: { 'Accept-Encoding': 'gzip, br' } })
    assert.equal(got.status, 200)
    assert.equal(got.text, text)
    assert.equal(String(got.headers['content-type']).replace('application/javascript', 'text/javascript'), type)
    assert.equal(got.headers['content-encoding'], undefined)
    const head = await send(url, 'HEAD', path)
    assert.equal(head.status, 200)
    assert.equal(head.text, '')
    assert.equal(head.headers['content-length'], String(Buffer.byteLength(text)))
  })
}

test('a directory without a slash at its end redirects to the one with it, below any prefix', async () => {
  for (const [path, location] of [
    ['/pages', './pages/'],
    ['/pages?q=1', './pages/?q=1'],
  ] as const) {
    const got = await send(url, 'GET', path)
    assert.deepEqual([got.status, got.headers.location], [301, location])
  }
})

test('no file outside of the directory is served, however it is addressed', async () => {
  const paths = [
    '/../outside/secret.txt',
    '/..%2foutside/secret.txt',
    '/..%2Foutside%2Fsecret.txt',
    '/%2e%2e/outside/secret.txt',
    '/pages/../../outside/secret.txt',
    '/pages/%2e%2e%2f%2e%2e%2foutside%2fsecret.txt',
    '/..%5coutside%5csecret.txt',
    '/....//outside/secret.txt',
    '/%252e%252e/outside/secret.txt',
    `/${encodeURIComponent(join(outside, 'secret.txt'))}`,
    `//${join(outside, 'secret.txt')}`,
    '/../wwwroot-beside/index.html',
    '/..%2fwwwroot-beside',
    '/%2F',
    '/%2fscript.js',
    '/pages%2F',
    '/link.txt',
    '/link/secret.txt',
    '/link/',
    '/link',
    '/beside',
    '/beside/',
    '/beside/index.html',
    '/linked-index',
    '/linked-index/',
    '/linked-index/index.html',
    '/.hidden',
    '/%2ehidden',
    '/empty',
    '/empty/',
    '/script.js/',
    '/script.js/%2e%2e',
    '/pages/%2e%2e/',
    '/pages/%2e',
    '/script.js%00.html',
    '/%00',
    '/%zz',
    '//',
    '///',
    `/${'x'.repeat(5000)}`,
  ]
  for (const path of paths) {
    for (const method of ['GET', 'HEAD']) {
      const { status, text } = await send(url, method, path)
      assert.ok(status === 404 || status === 400, `${method} ${path} is ${status}`)
      assert.doesNotMatch(text, /^secret/, path)
    }
  }
  assert.doesNotMatch(stderr(), /failed/)
})

test('API paths take precedence over files', async () => {
  assert.deepEqual((await send(url, 'GET', '/api/things')).json(), [])
})

test('other methods do not find files', async () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
    assert.ok([404, 405].includes((await send(url, method, '/index.html')).status), method)
  }
})

test("the Swagger page's policy allows its inline script by hash, and no other inline script", async (t) => {
  const server = await startProgram(t, { data: {} })
  const reply = await server.fetch('/swagger/')
  const html = await reply.text()
  const [script, ...others] = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, text]) => String(text))
  assert.match(String(script), /SwaggerUIBundle/)
  assert.deepEqual(others, [])
  const policy = String(reply.headers.get('content-security-policy')).split('; ')
  const scripts = policy.find((directive) => directive.startsWith('script-src '))
  assert.equal(scripts, `script-src 'self' 'sha256-${hash('sha256', String(script), 'base64')}'`)
})

test('the Swagger page has no address of another host', async (t) => {
  const server = await startProgram(t, { data: {} })
  const html = await (await server.fetch('/swagger/')).text()
  assert.doesNotMatch(html, /https?:\/\/(?!www\.w3\.org\/)/)
  const addresses = Array.from(html.matchAll(/(?:src|href)="([^"]+)"/g), ([, address]) => String(address))
  const others = addresses.filter((address) => !/^(?:\.\/)?assets-[0-9A-F]{8}\//.test(address))
  assert.deepEqual([...new Set(others)].sort(), ['../', '../openapi.json'])
})

test('only the lines of the web fonts and of the icon are removed from the page', () => {
  const fonts = '  <link href="https://fonts.googleapis.com/css?family=Open+Sans" rel="stylesheet">'
  const icon = '  <link rel="icon" type="image/png" href="/favicon.png" />'
  const page = ownPage(`<head>\n${fonts}\n${icon}\n  <style></style>\n</head>\n<body>\n</body>\n`, 'icon.svg')
  assert.doesNotMatch(page, /googleapis|favicon/)
  assert.match(page, /^<head>.*<link rel="icon" href="icon.svg".*\n {2}<style><\/style>\n<\/head>\n<body>\n<header>/s)
})

const SCRIPT = swaggerAsset('swagger-ui-bundle.js')
const built = await readFile(new URL(`../../dist/pages${SCRIPT}`, import.meta.url), 'utf8')

test('a built file is sent in the encoding that the client accepts, with HEAD the same headers', async () => {
  for (const [accepted, encoding] of [
    ['gzip, deflate, br', 'br'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['identity;q=1, br;q=0.5, gzip;q=0.5', null],
    ['identity', null],
    ['deflate', null],
    ['', null],
    ['identity;q=0, gzip', 'gzip'],
    // Nothing that there is is acceptable; the plain file is what most clients can read.
    ['identity;q=0', null],
  ] as const) {
    const headers = { 'Accept-Encoding': accepted }
    const got = await fetch(url + SCRIPT, { headers })
    assert.equal(got.status, 200)
    assert.equal(got.headers.get('content-encoding'), encoding, accepted)
    assert.match(String(got.headers.get('content-type')), /^(?:text|application)\/javascript; charset=utf-8$/)
    assert.match(String(got.headers.get('vary')), /(?:^|, )Accept-Encoding$/)
    assert.equal(await got.text(), built, accepted)
    const head = await send(url, 'HEAD', SCRIPT, { headers })
    for (const name of ['content-encoding', 'content-length', 'content-type', 'etag', 'vary', 'cache-control']) {
      assert.equal(head.headers[name] ?? null, got.headers.get(name), `${accepted}: ${name}`)
    }
  }
})

test('a built file has an ETag for each encoding, and 304 has the headers of caches alone', async () => {
  const tags = new Set<string>()
  for (const encoding of ['br', 'gzip', 'identity']) {
    const headers = { 'Accept-Encoding': encoding }
    const tag = String((await send(url, 'HEAD', SCRIPT, { headers })).headers.etag)
    for (const known of tags) {
      const other = await send(url, 'HEAD', SCRIPT, { headers: { ...headers, 'If-None-Match': known } })
      assert.equal(other.status, 200)
    }
    tags.add(tag)
    const same = await send(url, 'GET', SCRIPT, { headers: { ...headers, 'If-None-Match': tag } })
    assert.equal(same.status, 304)
    assert.equal(same.headers.etag, tag)
    assert.match(String(same.headers.vary), /(?:^|, )Accept-Encoding$/)
    assert.match(String(same.headers['cache-control']), /immutable/)
    assert.deepEqual([same.headers['content-encoding'], same.headers['content-length']], [undefined, undefined])
  }
  assert.equal(tags.size, 3)
})

test('a request for a range of a file gets the whole file', async () => {
  const headers = { 'Accept-Encoding': 'br', Range: 'bytes=0-9' }
  const got = await fetch(url + SCRIPT, { headers })
  assert.equal(got.status, 200)
  assert.equal(got.headers.get('content-range'), null)
  assert.equal(await got.text(), built)
})

test('built files with a hash in their path are immutable, and all other files are revalidated', async () => {
  for (const [path, expected] of [
    [SCRIPT, 'public, max-age=31536000, immutable'],
    [swaggerAsset('icon.svg'), 'public, max-age=31536000, immutable'],
    ['/client/index.js', 'no-cache'],
    ['/collections.html', 'no-cache'],
    ['/index.html', 'no-cache'],
    ['/script-0123ABCD.js', 'no-cache'],
  ] as const) {
    assert.equal((await send(url, 'HEAD', path)).headers['cache-control'], expected, path)
  }
  const vary = (await send(url, 'HEAD', '/script.js')).headers.vary
  assert.doesNotMatch(String(vary), /Accept-Encoding/)
})
