import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { sleep, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { diskWith, openTestEngine } from '../support/engine.ts'
import { json, ofOneServer, type RunningServer, runToEnd } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const SEGMENT = '00000000000000000001.ndjson'
const DATA = { posts: [{ id: 1, title: 'a' }] }

const ONE = {
  skip:
    ofOneServer('the files of one server are looked at') ||
    (spawnSync('git', ['--version']).status !== 0 && 'git is not installed'),
}

function git(directory: string, ...args: readonly string[]): string {
  const identity = ['-c', 'user.name=A', '-c', 'user.email=a@example.com']
  const { status, stdout, stderr } = spawnSync('git', [...identity, ...args], { cwd: directory, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

/** A server in a new repository, with one write. */
async function served(t: TestContext): Promise<RunningServer> {
  const directory = await temporaryDirectory(t)
  git(directory, 'init', '--quiet')
  await writeFile(join(directory, 'db.json'), JSON.stringify(DATA, null, 2))
  const server = await startServer(t, { directory })
  assert.equal((await server.fetch('/api/posts/1', json('PATCH', { title: 'b' }))).status, 204)
  return server
}

/** A clone of what is committed after `files` were added. */
async function cloned(t: TestContext, server: RunningServer, ...files: readonly string[]): Promise<string> {
  git(server.directory, 'add', '--force', ...files)
  git(server.directory, 'commit', '--quiet', '--message', 'data')
  const directory = join(await temporaryDirectory(t), 'clone')
  git(server.directory, 'clone', '--quiet', server.directory, directory)
  return directory
}

/** A clone that has the segments of the original, and nothing else of its journal. */
async function copied(t: TestContext): Promise<{ readonly directory: string; readonly original: string }> {
  const server = await served(t)
  assert.equal(await server.stop(), 0)
  const directory = await cloned(t, server, 'db.json', join('db.journal', SEGMENT))
  return { directory, original: server.directory }
}

async function eventTypes(server: RunningServer): Promise<readonly string[]> {
  const events = (await (await server.fetch('/events')).json()) as { type: string }[]
  return events.map(({ type }) => type)
}

test('git sees the data file alone, while a server runs and afterwards', ONE, async (t) => {
  const server = await served(t)
  await until('the file', () => readFileSync(server.file, 'utf8').includes('"b"'))
  const status = (): string => git(server.directory, 'status', '--porcelain', '--untracked-files=all')
  assert.equal(status(), '?? db.json\n')
  assert.equal(await server.stop(), 0)
  assert.equal(status(), '?? db.json\n')
})

test('a committed data file begins a new journal, and one line of the log says so', ONE, async (t) => {
  const server = await served(t)
  assert.equal(await server.stop(), 0)
  const clone = await startServer(t, { directory: await cloned(t, server, 'db.json') })
  assert.deepEqual(await (await clone.fetch('/api/posts')).json(), [{ id: 1, title: 'b' }])
  assert.deepEqual(await eventTypes(clone), ['CollectionCreated', 'ItemCreated'])
  const lines = clone.log().split('\n')
  assert.equal(lines.filter((line) => /new journal/.test(line)).length, 1, clone.log())
})

test('segments that were committed are set aside unchanged in a clone, and a new journal begins', ONE, async (t) => {
  const { directory } = await copied(t)
  const committed = await readFile(join(directory, 'db.journal', SEGMENT))
  const clone = await startServer(t, { directory })
  assert.equal((await clone.fetch('/api/posts', json('POST', { title: 'c' }))).status, 201)
  assert.match(clone.log(), /"level":40[^\n]*db\.journal is now \S+db\.journal\.aside, and a new one begins/)
  assert.deepEqual(await readFile(join(directory, 'db.journal.aside', SEGMENT)), committed)
  assert.deepEqual(await eventTypes(clone), ['CollectionCreated', 'ItemCreated', 'ItemCreated'])
  assert.equal(await clone.stop(), 0)
  assert.doesNotMatch(git(directory, 'status', '--porcelain', '--untracked-files=all'), /\?\?/)
})

test('a journal that was set aside is continued as the message says', ONE, async (t) => {
  const { directory, original } = await copied(t)
  const clone = await startServer(t, { directory })
  assert.match(clone.log(), /stop the server, put it back .* remove \.recollect, and start with --accept-journal/)
  assert.equal(await clone.stop(), 0)
  await rm(join(directory, 'db.journal'), { recursive: true })
  await rm(join(directory, '.recollect'), { recursive: true })
  await rename(join(directory, 'db.journal.aside'), join(directory, 'db.journal'))
  const again = await startServer(t, { directory, flags: ['--accept-journal'] })
  assert.deepEqual(await eventTypes(again), await eventsIn(original))
})

test('a copy stays where it is while the data file is invalid, and a read-only server uses it', ONE, async (t) => {
  const { directory, original } = await copied(t)
  const before = await readFile(join(directory, 'db.json'))
  await writeFile(join(directory, 'db.json'), '<<<<<<< HEAD')
  for (let start = 0; start < 2; start++) {
    const { code } = await runToEnd(t, directory, ['--file', 'db.json', '--port', '0'])
    assert.equal(code, 2)
    assert.deepEqual(await readdir(join(directory, 'db.journal')), [SEGMENT])
  }
  await writeFile(join(directory, 'db.json'), before)
  const clone = await startServer(t, { directory, flags: ['--read-only'] })
  assert.deepEqual(await eventTypes(clone), await eventsIn(original))
})

test('--accept-journal continues with segments that were committed', ONE, async (t) => {
  const { directory, original } = await copied(t)
  const clone = await startServer(t, { directory, flags: ['--accept-journal'] })
  assert.deepEqual(await eventTypes(clone), await eventsIn(original))
  assert.ok(!(await readdir(directory)).includes('db.journal.aside'))
})

async function eventsIn(directory: string): Promise<readonly string[]> {
  const [, ...lines] = (await readFile(join(directory, 'db.journal', SEGMENT), 'utf8')).trim().split('\n')
  return lines.flatMap((line) => Array.from(line.matchAll(/"type":"(\w+)"/g), ([, type = '']) => type))
}

test(
  'a branch that is checked out is merged at once with --watch, and a conflict marker changes nothing',
  ONE,
  async (t) => {
    const server = await served(t)
    await until('the file', () => readFileSync(server.file, 'utf8').includes('"b"'))
    assert.equal(await server.stop(), 0)
    const { directory, file } = server
    git(directory, 'add', 'db.json')
    git(directory, 'commit', '--quiet', '--message', 'first')
    git(directory, 'checkout', '--quiet', '-b', 'other')
    await writeFile(file, (await readFile(file, 'utf8')).replace('"b"', '"of the branch"'))
    git(directory, 'commit', '--quiet', '--all', '--message', 'second')
    git(directory, 'checkout', '--quiet', '-')

    const watching = await startServer(t, { directory, flags: ['--watch'] })
    const title = async (): Promise<string> =>
      ((await (await watching.fetch('/api/posts/1')).json()) as { title: string }).title
    assert.equal(await title(), 'b')
    git(directory, 'checkout', '--quiet', 'other')
    await until('the branch', async () => (await title()) === 'of the branch')
    const text = await readFile(file, 'utf8')
    await writeFile(file, text.replace(/^.*of the branch.*$/m, '<<<<<<< HEAD\n$&\n=======\n>>>>>>> other'))
    await until('the message', () => /not imported[^\n]*line \d+/.test(watching.log()))
    assert.equal(await title(), 'of the branch')
  },
)

test('files of earlier releases beside the data file are moved to where git does not see them', ONE, async (t) => {
  const server = await served(t)
  assert.equal(await server.stop(), 0)
  const { directory } = server
  const state = join(directory, '.recollect', 'db.json.state')
  const text = await readFile(state, 'utf8')
  await rename(state, join(directory, '.db.json.recollect'))
  await rm(join(directory, '.recollect'), { recursive: true })
  await rename(join(directory, 'db.journal'), join(directory, 'elsewhere'))
  const { code, stderr } = await runToEnd(t, directory, ['--file', 'db.json', '--port', '0'])
  assert.equal(code, 1)
  assert.match(stderr, /there is no journal/)

  await rename(join(directory, 'elsewhere'), join(directory, 'db.journal'))
  const again = await startServer(t, { directory })
  assert.deepEqual(await eventTypes(again), ['CollectionCreated', 'ItemCreated', 'ItemPatched'])
  assert.deepEqual((await readdir(directory)).sort(), ['.git', '.recollect', 'db.journal', 'db.json'])
  assert.deepEqual(JSON.parse(await readFile(state, 'utf8')), JSON.parse(text))
})

test(
  'a state file of an earlier release that git brings back does not replace that of another journal',
  ONE,
  async (t) => {
    const server = await served(t)
    assert.equal(await server.stop(), 0)
    const { directory } = server
    const state = JSON.parse(await readFile(join(directory, '.recollect', 'db.json.state'), 'utf8')) as object
    await writeFile(join(directory, '.db.json.recollect'), JSON.stringify({ ...state, journal: 'another' }))
    const again = await startServer(t, { directory })
    assert.deepEqual(await eventTypes(again), ['CollectionCreated', 'ItemCreated', 'ItemPatched'])
  },
)

test('a later state file of an earlier release takes the place of the present one', ONE, async (t) => {
  const server = await served(t)
  assert.equal(await server.stop(), 0)
  const { directory } = server
  const path = join(directory, '.recollect', 'db.json.state')
  const later = await readFile(path, 'utf8')
  await writeFile(join(directory, '.db.json.recollect'), later)
  const { journal } = JSON.parse(later) as { journal: string }
  await writeFile(path, JSON.stringify({ journal, confirmed: { position: 1, hash: 'x' } }))
  const again = await startServer(t, { directory })
  assert.equal((await eventTypes(again)).length, 3)
  assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), JSON.parse(later))
  assert.ok(!(await readdir(directory)).includes('.db.json.recollect'))
})

test('a directory that a crash left empty is ignored by git, too', ONE, async (t) => {
  const directory = await temporaryDirectory(t)
  git(directory, 'init', '--quiet')
  await mkdir(join(directory, '.recollect'))
  await startServer(t, { directory, data: DATA })
  assert.equal(git(directory, 'status', '--short'), '?? db.json\n')
})

test('a directory that has rules for git keeps them', ONE, async (t) => {
  const directory = await temporaryDirectory(t)
  git(directory, 'init', '--quiet')
  await mkdir(join(directory, 'db.journal'))
  await writeFile(join(directory, 'db.journal', '.gitignore'), 'lock\n')
  await writeFile(join(directory, 'db.json'), JSON.stringify(DATA))
  await startServer(t, { directory })
  assert.equal(await readFile(join(directory, 'db.journal', '.gitignore'), 'utf8'), 'lock\n')
})

test('an edit without --watch is logged once, with what merges it', ONE, async (t) => {
  const server = await served(t)
  await until('the file', () => readFileSync(server.file, 'utf8').includes('"b"'))
  const logged = (): number => server.log().split('db.json was edited').length - 1
  for (const title of ['edited', 'again']) {
    await writeFile(server.file, JSON.stringify({ posts: [{ id: 1, title }] }))
    await until('the message', () => logged() > 0)
  }
  // Longer than until the next look at the file.
  await sleep(3000)
  assert.equal((await server.fetch('/api/posts/1', json('PATCH', { n: 1 }))).status, 204)
  assert.match(server.log(), /POST \/admin\/reload or the next start merges the edit, and --watch merges edits at once/)
  assert.equal((await server.fetch('/admin/reload', { method: 'POST' })).status, 200)
  assert.equal(logged(), 1)
})

test('a copy that cannot be set aside is refused at each start, and stays as it is', async () => {
  const disk = diskWith(DATA)
  const { engine } = await openTestEngine(disk.files())
  await engine.close()
  const journal = '/data/db.journal'
  for (const name of disk.list(journal)) if (name !== SEGMENT) disk.take(`${journal}/${name}`)
  disk.take('/data/.recollect/db.json.state')
  const mounted = disk.files((operation, path) =>
    operation === 'rename' && path === journal ? { type: 'error', code: 'EBUSY' } : undefined,
  )
  for (let start = 0; start < 2; start++) {
    await assert.rejects(openTestEngine(mounted), /cannot be set aside: .*EBUSY.*--journal/)
    assert.deepEqual(disk.list(journal), [SEGMENT])
  }
  const { engine: again } = await openTestEngine(disk.files())
  await again.close()
  assert.deepEqual(disk.list(`${journal}.aside`).includes(SEGMENT), true)
})
