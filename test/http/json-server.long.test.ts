import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort, startProcess } from '../support/process.ts'
import { ofOneServer, startProgram } from '../support/server.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DOCUMENT = readFileSync(join(ROOT, 'docs/migrate-from-json-server.md'), 'utf8')
const DATA = JSON.parse(/```json\n([\s\S]*?)```/.exec(DOCUMENT)?.[1] ?? '') as Readonly<Record<string, unknown>>
const PROGRAMS = { '0.17.4': 'json-server-0/lib/cli/bin.js', '1.0.0-beta.15': 'json-server-1/lib/bin.js' }

type Version = keyof typeof PROGRAMS
type Verdict = 'same' | 'same*' | 'differs'

interface Row {
  readonly method: string
  readonly path: string
  readonly body: string | undefined
  readonly verdicts: Readonly<Record<Version, string>>
}

/** The base URLs of all servers, each on data of its own. */
type Servers = Readonly<Record<Version | 'plain' | 'compatible', string>>

const ROWS: readonly Row[] = DOCUMENT.split('\n').flatMap((line) => {
  const [, request = '', old = '', beta = ''] = line.split(' | ').length >= 3 ? ['', ...line.split(' | ')] : []
  const [, method, path, body] = /^\| `([A-Z]+) (\S+)`(?: `(.*)`)?$/.exec(request) ?? []
  if (!method || !path) return []
  return [{ method, path, body, verdicts: { '0.17.4': old, '1.0.0-beta.15': beta } }]
})

async function startJsonServer(t: TestContext, version: Version): Promise<string> {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'db.json'), JSON.stringify(DATA))
  const port = await freePort()
  const program = join(ROOT, 'node_modules', PROGRAMS[version])
  const flags = ['db.json', '--port', String(port), '--host', '127.0.0.1']
  startProcess(t, [process.execPath, program, ...flags], { cwd: directory })
  const url = `http://127.0.0.1:${port}`
  await until(`json-server ${version}`, async () => (await fetch(`${url}/posts`).catch(() => undefined))?.ok)
  return url
}

async function startAll(t: TestContext): Promise<Servers> {
  const [old, beta, plain, compatible] = await Promise.all([
    startJsonServer(t, '0.17.4'),
    startJsonServer(t, '1.0.0-beta.15'),
    startProgram(t, { data: DATA }),
    startProgram(t, { data: DATA, flags: ['--json-server'] }),
  ])
  return { '0.17.4': old, '1.0.0-beta.15': beta, plain: `${plain.url}/api`, compatible: compatible.url }
}

/** Status and JSON of a success, and what the collections are after a write. */
async function answerOf(url: string, { method, path, body }: Row): Promise<unknown> {
  const answer = await fetch(url + path, {
    method,
    ...(body !== undefined && { body, headers: { 'Content-Type': typeOf(body) } }),
  })
  const text = await answer.text()
  const found = { status: answer.status, ...(answer.ok && { body: text === '' ? undefined : withoutIds(text) }) }
  if (method === 'GET') return found
  const after = ['posts', 'comments', 'profile'].map(async (name) =>
    withoutIds(await (await fetch(`${url}/${name}`)).text()),
  )
  return { ...found, after: await Promise.all(after) }
}

const typeOf = (body: string): string =>
  body.startsWith('{') ? 'application/json' : 'application/x-www-form-urlencoded'

/** Ids that were made at random are all alike. */
function withoutIds(text: string): unknown {
  return JSON.parse(text, (name, value: unknown) =>
    name === 'id' && /^[\w-]{7,11}$/.test(String(value)) ? '*' : value,
  )
}

/** Asks all servers once, and compares each json-server with both ways of Recollect. */
async function check(t: TestContext, servers: Servers, row: Row): Promise<void> {
  const names = Object.keys(servers) as (keyof Servers)[]
  const answers = new Map(
    await Promise.all(names.map(async (name) => [name, await answerOf(servers[name], row)] as const)),
  )
  for (const version of Object.keys(PROGRAMS) as Version[]) {
    await t.test(`${row.method} ${row.path} ${row.body ?? ''} of ${version}`, () => {
      const isSame = (name: keyof Servers): boolean => isEqual(answers.get(name), answers.get(version))
      const verdict: Verdict = isSame('plain') ? 'same' : isSame('compatible') ? 'same*' : 'differs'
      assert.equal(verdict, row.verdicts[version])
    })
  }
}

function isEqual(one: unknown, other: unknown): boolean {
  try {
    assert.deepEqual(one, other)
    return true
  } catch {
    return false
  }
}

const skip = ofOneServer('it is compared with a server, and nodes of a cluster are several')

test('the table contains all reads and writes', () => {
  assert.ok(ROWS.length > 60, String(ROWS.length))
  assert.deepEqual([...new Set(ROWS.map(({ method }) => method))], ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
})

test('each read behaves as the table says', { skip }, async (t) => {
  const servers = await startAll(t)
  for (const row of ROWS.filter(({ method }) => method === 'GET')) await check(t, servers, row)
})

test('each write behaves as the table says', { skip }, async (t) => {
  for (const row of ROWS.filter(({ method }) => method !== 'GET')) {
    await t.test(`${row.method} ${row.path} ${row.body ?? ''}`, async (t) => check(t, await startAll(t), row))
  }
})
