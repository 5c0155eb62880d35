import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { commandsWith } from '../src/cli/commands.ts'
import { CLUSTER } from '../src/cluster/cluster.ts'
import { KeySet } from '../src/settings/key-set.ts'
import { DEADLINE_MS } from './support/deadline.ts'
import { type Scope, temporaryDirectory } from './support/directory.ts'
import { type Block, blocksOf, lasting, sectionOf, transcript } from './support/documents.ts'
import { type RunningProcess, startProcess } from './support/process.ts'
import { SAMPLE, startProgram } from './support/server.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const readme = read('README.md')
const { scripts, version } = JSON.parse(read('package.json')) as { scripts: Record<string, string>; version: string }
const documents = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.md'),
)
const pages = ['README.md', 'CHANGELOG.md', ...documents.map((name) => `docs/${name}`)]

const DOCUMENTED = 'localhost:57602'
/** The files of a checkout that a session needs, apart from the dependencies. */
const CHECKOUT = [
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'appsettings.json',
  'data/sensors.json',
  'src',
  'scripts',
  'dist',
  'wwwroot',
]

/** One who follows README from top to bottom: in a checkout, and in an empty folder in which the package is installed. */
class Session {
  readonly checkout: string
  readonly folder: string
  readonly #t: Scope
  #server: RunningProcess | undefined
  #address = DOCUMENTED

  constructor(t: Scope, directory: string) {
    this.#t = t
    this.checkout = join(directory, 'recollect')
    this.folder = join(directory, 'project')
    for (const path of CHECKOUT) {
      cpSync(join(root, path), join(this.checkout, path), { recursive: true, preserveTimestamps: true })
    }
    symlinkSync(join(root, 'node_modules'), join(this.checkout, 'node_modules'))
    mkdirSync(this.folder)
  }

  /** The same as `npm install` of the packed checkout. */
  install(): void {
    mkdirSync(join(this.folder, 'node_modules', '.bin'), { recursive: true })
    symlinkSync(this.checkout, join(this.folder, 'node_modules', 'recollect'))
    symlinkSync(join(this.checkout, 'dist', 'main.js'), join(this.folder, 'node_modules', '.bin', 'recollect'))
  }

  /** Starts a server on a free port; one that was started before has been stopped with Ctrl+C. */
  async start(directory: string, command: readonly string[]): Promise<void> {
    await this.stop()
    const server = startProcess(this.#t, [...command, '--urls', 'http://127.0.0.1:0'], { cwd: directory })
    const [, address] = (await server.printed(/listens on http:\/\/(\S+)\n/)) ?? []
    assert.ok(address, `${command.join(' ')} ended:\n${server.output()}`)
    this.#server = server
    this.#address = address
  }

  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    server.process.kill('SIGINT')
    assert.deepEqual(await server.ended(), { code: 0, signal: null }, server.output())
  }

  save(file: string | undefined, text: string): void {
    assert.ok(file, 'the block is a file of the folder, so it has a name')
    mkdirSync(dirname(join(this.folder, file)), { recursive: true })
    writeFileSync(join(this.folder, file), text)
  }

  /** A command's standard output, as it would be on the documented port. */
  async run(command: string): Promise<string> {
    const shell = startProcess(this.#t, ['sh', '-c', command.replaceAll(DOCUMENTED, this.#address)], {
      cwd: this.folder,
      env: { PATH: process.env.PATH ?? '' },
    })
    const { code } = await shell.ended()
    assert.equal(code, 0, `$ ${command}\n${shell.output()}`)
    return shell.stdout().replaceAll(this.#address, DOCUMENTED)
  }
}

async function follow(session: Session, { language, file, text }: Block): Promise<void> {
  if (language === 'sh') {
    for (const command of text.trim().split(/\n| && /)) await followCommand(session, command)
  } else if (language === 'console') {
    for (const { command, output } of transcript(text)) {
      assert.equal(lasting(await session.run(command)), lasting(output), `$ ${command}`)
    }
  } else {
    assert.ok(['html', 'js', 'json'].includes(language), `a block can be run, or is a file, and not ${language}`)
    session.save(file, text)
  }
}

async function followCommand(session: Session, command: string): Promise<void> {
  const [program, ...words] = command.split(' ')
  if (program === 'npx') {
    const [, name, ...flags] = words
    await session.start(session.folder, [join(session.folder, 'node_modules', '.bin', name ?? ''), ...flags])
  } else if (command === 'npm start') await session.start(session.checkout, (scripts.start ?? '').split(' '))
  else if (command === 'npm ci') assert.ok(existsSync(join(root, 'package-lock.json')))
  else if (words[0] === 'pack') assert.equal(words[1], '../recollect', 'test/package.long.test.ts packs the checkout')
  else if (words[0] === 'install') {
    assert.equal(words[1], `recollect-${version}.tgz`)
    session.install()
  } else assert.ok(scripts[words.at(-1) ?? ''], `package.json has a script for ${command}`)
}

const isWithoutCurl = spawnSync('curl', ['--version'], { timeout: DEADLINE_MS }).error !== undefined
const without = isWithoutCurl && process.env.CI !== 'true' ? 'curl is missing' : false

test('README runs: every block, from top to bottom', { skip: without }, async (t) => {
  const session = new Session(t, await temporaryDirectory(t))
  t.after(() => session.stop())
  const blocks = blocksOf(readme)
  assert.ok(blocks.length > 8)
  assert.equal(readme.match(/^```/gm)?.length, blocks.length * 2, 'every fence belongs to a block')

  for (const block of blocks) {
    const [first = ''] = block.text.split('\n')
    await t.test(`line ${block.line}: ${first}`, () => follow(session, block))
  }

  await t.test('examples/live has the files that README shows', () => {
    for (const { file, text } of blocks) if (file) assert.equal(read(join('examples/live', file)), text, file)
  })

  await t.test('the files of a checkout stay as they were', () => {
    for (const path of ['package.json', 'appsettings.json', 'data/sensors.json']) {
      assert.equal(readFileSync(join(session.checkout, path), 'utf8'), read(path), `${path} is as it was`)
    }
    const ignored = read('.gitignore').split('\n')
    assert.ok(ignored.includes('/data/*') && ignored.includes('!/data/sensors.json'))
  })
})

for (const [page, title] of [
  ['docs/security.md', 'Setting up users'],
  ['docs/readings.md', 'A sensor backend'],
] as const) {
  test(`"${title}" of ${page} runs from top to bottom`, { skip: without }, async (t) => {
    const session = new Session(t, await temporaryDirectory(t))
    t.after(() => session.stop())
    session.install()
    cpSync(join(root, 'examples/live/db.json'), join(session.folder, 'db.json'))
    const blocks = blocksOf(sectionOf(read(page), title))
    assert.ok(blocks.length > 1)
    for (const block of blocks) await follow(session, block)
  })
}

test('README is a first page of at most 200 lines', () => {
  assert.ok(readme.trimEnd().split('\n').length <= 200)
})

test('every example of the query table matches items of the sample', async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const examples = [...read('docs/api.md').matchAll(/^\|.*`(\?\S+)` \|$/gm)].map(([, search]) => search as string)
  assert.ok(examples.length > 5)
  for (const search of examples) {
    const answer = await server.fetch(`/api/sensors${search}`)
    assert.equal(answer.status, 200, search)
    assert.notDeepEqual(await answer.json(), [], search)
  }
})

/** The rows of a table of settings, without links and code marks. */
function settingsIn(page: string): readonly string[] {
  const [, table = ''] = /^\| Setting \|.*\n([\s\S]*?)\n\n/m.exec(read(page)) ?? []
  return [...table.matchAll(/^\| `([^`]+)` \| (.*) \| (.*) \|$/gm)].map(
    ([, name, text = '', initial]) =>
      `${name} | ${text
        .replace(/ \(\[[^\]]*\]\([^)]*\)\)/g, '')
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .replaceAll('`', '')} | ${initial}`,
  )
}

test('the settings table in docs/api.md equals that of the program', () => {
  const settings = new KeySet(CLUSTER.keys).rows()
  const real = settings.map(([name, , text, initial]) => `${name} | ${text} | ${initial}`)
  assert.deepEqual(settingsIn('docs/api.md'), real)
})

test('every command and flag is in docs/api.md', () => {
  const page = read('docs/api.md')
  for (const [name, { flags }] of Object.entries(commandsWith(CLUSTER))) {
    assert.ok(page.includes(`recollect ${name}`.trim()), name)
    for (const flag of Object.keys(flags)) assert.match(page, new RegExp(`--${flag}(?![\\w-])`), `${name} --${flag}`)
  }
})

test('JSON in the documents is valid', () => {
  const blocks = pages.flatMap((page) => blocksOf(read(page)).filter(({ language }) => language === 'json'))
  assert.ok(blocks.length > 3)
  for (const { text } of blocks) JSON.parse(text)
})

test('every link between the documents has a target', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)]
      .filter(([, path = '', anchor]) => {
        const target = path === '' ? page : join(dirname(page), path)
        return !existsSync(join(root, target)) || (anchor && !anchors(read(target)).includes(anchor))
      })
      .map(([link]) => `${basename(page)}: ${link}`),
  )
  assert.deepEqual(broken, [])
})

test('docs/README.md names every other document beside it', () => {
  const index = read('docs/README.md')
  const beside = documents.filter((name) => !name.includes('/') && name !== 'README.md')
  assert.deepEqual(
    beside.filter((name) => !index.includes(`](${name})`)),
    [],
  )
})

test('every source file that a document names exists', () => {
  const missing = pages.flatMap((page) =>
    [...read(page).matchAll(/`((?:src|test|scripts|bench)\/[\w/.-]+)`/g)]
      .filter(([, path = '']) => page !== 'CHANGELOG.md' && !existsSync(join(root, path)))
      .map(([, path]) => `${page}: ${path}`),
  )
  assert.deepEqual(missing, [])
})

test('docs/decisions/README.md lists every decision, and their numbers have no gaps', () => {
  const names = documents.filter((name) => /^decisions\/\d/.test(name)).sort()
  const index = read('docs/decisions/README.md')
  assert.deepEqual(
    names.map((name) => Number(/\d+/.exec(name))),
    names.map((_, place) => place + 1),
  )
  for (const name of names) assert.ok(index.includes(`](${basename(name)})`), name)
})

function anchors(page: string): readonly string[] {
  return [...page.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}

test('the rules of docs/journal.md are numbered without gaps', () => {
  const numbers = [...read('docs/journal.md').matchAll(/^\*\*J(\d+)\.\*\*/gm)].map(([, number]) => Number(number))
  assert.deepEqual(
    numbers,
    Array.from({ length: 33 }, (_, index) => index + 1),
  )
})
