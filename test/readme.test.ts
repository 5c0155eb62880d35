import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, delimiter, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { commandsWith } from '../src/cli/commands.ts'
import { CLUSTER } from '../src/cluster/cluster.ts'
import { KeySet } from '../src/settings/key-set.ts'
import { DEADLINE_MS, fetch, until } from './support/deadline.ts'
import { type Scope, temporaryDirectory } from './support/directory.ts'
import { type RunningProcess, startProcess } from './support/process.ts'
import { startServer } from './support/server.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const readme = read('README.md')
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
const documents = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.md'),
)
const pages = ['README.md', 'CHANGELOG.md', ...documents.map((name) => `docs/${name}`)]

/** A fenced block; its info string is a language and, where the block is a file, the file's name. */
interface Block {
  readonly line: number
  readonly language: string
  readonly file: string | undefined
  readonly text: string
}

function blocksOf(page: string): readonly Block[] {
  return [...page.matchAll(/^```(\S*)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = '', 2: file, 3: text = '' }) => ({
      line: page.slice(0, index).split('\n').length,
      language,
      file,
      text,
    }),
  )
}

const DOCUMENTED = 'localhost:57602'
/** Where README serves the past. */
const DOCUMENTED_PAST = 'localhost:57603'
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
  'examples',
]

/** One who follows README from top to bottom, in a copy of the project, with a free port for the documented one. */
class Session {
  readonly directory: string
  readonly #t: Scope
  #server: RunningProcess | undefined
  #past: RunningProcess | undefined
  #address = ''
  #pastAddress = ''

  constructor(t: Scope, directory: string) {
    this.#t = t
    this.directory = directory
    for (const path of CHECKOUT) {
      cpSync(join(root, path), join(directory, path), { recursive: true, preserveTimestamps: true })
    }
    symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
  }

  /** The same as `npm start`; a server that was started before has been stopped with Ctrl+C. */
  async start(flags: readonly string[]): Promise<void> {
    await this.stop()
    const [node, ...script] = (scripts.start ?? '').split(' ')
    assert.equal(node, 'node')
    const { server, address } = await this.#serve([...script, ...flags])
    this.#server = server
    this.#address = address
  }

  /** In another terminal: a server of the past. */
  async play(script: readonly string[]): Promise<void> {
    const { server, address } = await this.#serve(script.filter((flag) => !/^--urls$|57603$/.test(flag)))
    this.#past = server
    this.#pastAddress = address
  }

  async #serve(script: readonly string[]): Promise<{ readonly server: RunningProcess; readonly address: string }> {
    const server = startProcess(this.#t, [process.execPath, ...script, '--urls', 'http://127.0.0.1:0'], {
      cwd: this.directory,
    })
    const [, address] = (await server.printed(/listens on http:\/\/(\S+)\n/)) ?? []
    assert.ok(address, `${script.join(' ')} ended:\n${server.output()}`)
    return { server, address }
  }

  async stop(): Promise<void> {
    const servers = [this.#server, this.#past]
    this.#server = undefined
    this.#past = undefined
    for (const server of servers) {
      if (!server) continue
      server.process.kill('SIGINT')
      assert.deepEqual(await server.ended(), { code: 0, signal: null }, server.output())
    }
  }

  save({ file, text }: Block): void {
    assert.ok(file, 'the block is a file that a command of README runs, so it has a name')
    writeFileSync(join(this.directory, file), text.replaceAll(DOCUMENTED, this.#address))
  }

  /** A command's standard output, as it would be on the documented port. */
  async run(command: string): Promise<string> {
    const here = command.replaceAll(DOCUMENTED, this.#address).replaceAll(DOCUMENTED_PAST, this.#pastAddress)
    const shell = startProcess(this.#t, ['sh', '-c', here], {
      cwd: this.directory,
      env: { PATH: [dirname(process.env.JQ ?? '/'), process.env.PATH].join(delimiter) },
    })
    const { code } = await shell.ended()
    assert.equal(code, 0, `$ ${command}\n${shell.output()}`)
    await this.#settled()
    return shell.stdout().replaceAll(this.#address, DOCUMENTED)
  }

  /** Whoever types is slower than the data file. */
  async #settled(): Promise<void> {
    const isBehind = async () => {
      const health = (await (await fetch(`http://${this.#address}/health`)).json()) as { dataFile: { state: string } }
      return health.dataFile.state === 'behind'
    }
    await until('the data file catches up', async () => !(await isBehind()))
  }
}

/** `$ ` begins a command, which a `\` at the end of a line continues; what follows is its output. */
function transcript(text: string): readonly { readonly command: string; readonly output: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [, command = '', output = ''] = /^((?:.*\\\n)*.*)\n?([\s\S]*)$/.exec(part) ?? []
      return { command, output }
    })
}

/** Without what differs from one run to the next. */
function lasting(output: string): string {
  return output
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replace(/"time":"[^"]*"/g, '"time":"<now>"')
    .replace(/^scrypt\$32768\$8\$1\$[\w-]{22}\$[\w-]{43}$/gm, '<hash>')
    .replaceAll('\r', '')
    .trim()
}

async function follow(session: Session, block: Block, t: TestContext): Promise<void> {
  const { language, text } = block
  switch (language) {
    case 'sh':
      for (const command of text.trim().split(/\n| && /)) {
        const [, npm, flags = ''] = /^npm (\S+)(?: -- (.*))?$/.exec(command) ?? []
        if (npm === 'ci') assert.ok(existsSync(join(root, 'package-lock.json')))
        else if (npm === 'start') await session.start(flags.split(' ').filter((flag) => flag !== ''))
        else if (/ replay --from /.test(command)) await session.play(command.split(' ').slice(1))
        else if (npm) assert.ok(scripts[npm], `package.json has a script ${npm}`)
        else await session.run(command.replace(/--seconds \d+/, '--seconds 2'))
      }
      return
    case 'console':
      if (/\bjq\b/.test(text) && !process.env.JQ && process.env.CI !== 'true') return t.skip('jq is missing')
      for (const { command, output } of transcript(text)) {
        assert.equal(lasting(await session.run(command)), lasting(output), `$ ${command}`)
      }
      return
    case 'js':
      session.save(block)
      assert.match(readme, new RegExp(`^\\$ node ${block.file}$`, 'm'), 'a transcript runs it')
      return
    case 'json': {
      const value: unknown = JSON.parse(text)
      if (block.file && existsSync(join(root, block.file))) {
        assert.deepEqual(value, JSON.parse(read(block.file)), `${block.file} is what README shows`)
      } else if (block.file) session.save(block)
      return
    }
    default:
      assert.fail(`a block of README is sh, console, js or json, so that it can be run, and not ${language || 'plain'}`)
  }
}

const missing = ['curl', 'perl'].find((tool) => spawnSync(tool, ['--version'], { timeout: DEADLINE_MS }).error)
const without = missing && process.env.CI !== 'true' ? `${missing} is missing` : false

test('README runs: every block, from top to bottom', { skip: without }, async (t) => {
  const session = new Session(t, await temporaryDirectory(t))
  t.after(() => session.stop())
  const blocks = blocksOf(readme)
  assert.ok(blocks.length > 8)
  assert.equal(readme.match(/^```/gm)?.length, blocks.length * 2, 'every fence belongs to a block')

  for (const block of blocks) {
    const [first = ''] = block.text.split('\n')
    await t.test(`line ${block.line}: ${first}`, (inner) => follow(session, block, inner))
  }

  await t.test('the blocks of README change no file that git tracks', () => {
    const named = new Set(blocks.map(({ file }) => file))
    const made = readdirSync(session.directory).filter(
      (name) => !CHECKOUT.some((path) => path.split('/')[0] === name) && name !== 'node_modules' && !named.has(name),
    )
    assert.deepEqual(made, [])
    for (const path of ['package.json', 'appsettings.json', 'data/sensors.json']) {
      assert.equal(readFileSync(join(session.directory, path), 'utf8'), read(path), `${path} is as it was`)
    }
    const ignored = read('.gitignore').split('\n')
    assert.ok(ignored.includes('/data/*') && ignored.includes('!/data/sensors.json'))
  })
})

test('every example of the query table matches items of the sample', async (t) => {
  const server = await startServer(t, { data: JSON.parse(read('data/sensors.json')) })
  const examples = [...readme.matchAll(/^\|.*`(\?\S+)` \|$/gm)].map(([, search]) => search as string)
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

test('the settings table in docs/api.md equals that of the program, and README has a part of it', () => {
  const settings = new KeySet(CLUSTER.keys).rows()
  const real = settings.map(([name, , text, initial]) => `${name} | ${text} | ${initial}`)
  assert.deepEqual(settingsIn('docs/api.md'), real)
  const shown = settingsIn('README.md')
  assert.ok(shown.length > 5)
  assert.deepEqual(
    shown.filter((row) => !real.includes(row)),
    [],
  )
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
    Array.from({ length: 32 }, (_, index) => index + 1),
  )
})
