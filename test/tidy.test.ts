import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { RUNS } from '../scripts/runs.js'

const src = fileURLToPath(new URL('../src', import.meta.url))
const here = fileURLToPath(new URL('.', import.meta.url))
const design = readFileSync(new URL('../docs/design.md', import.meta.url), 'utf8')

const MOST_LINES_OF_FILE = 500
const MOST_LINES_OF_FUNCTION = 70

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((name) => /(?<!\.d)\.ts$/.test(name))
const textOf = (file: string): string => readFileSync(join(src, file), 'utf8')

/** The files that each file imports, types too. */
const imports: ReadonlyMap<string, readonly string[]> = new Map(
  files.map((file) => {
    const targets = textOf(file).matchAll(/(?:from |import\()'(\.[^']+)'/g)
    return [file, Array.from(targets, ([, target]) => relative(src, resolve(src, dirname(file), target as string)))]
  }),
)

/** Which rooms a room may import: the table of docs/design.md. A room may always import itself. */
const mayImport = new Map<string, readonly string[]>()
for (const [, room, list] of design.matchAll(/^\| `([\w-]+)` \|.*\| ([^|]*?) ?\|$/gm)) {
  const all = list === 'all above'
  mayImport.set(room as string, all ? [...mayImport.keys()] : (list as string).split(', ').filter(Boolean))
}

function roomOf(path: string): string {
  return (path.split('/')[0] as string).replace(/\.ts$/, '')
}

test('the table of rooms in docs/design.md is complete, and each room imports only rooms above it', () => {
  assert.deepEqual([...mayImport.keys()].sort(), [...new Set(files.map(roomOf))].sort())
  const above = new Set<string>()
  for (const [room, rooms] of mayImport) {
    for (const one of rooms) assert.ok(above.has(one), `${room} imports ${one}, which is not above it`)
    above.add(room)
  }
})

test('imports follow the table of rooms', () => {
  const wrong = [...imports].flatMap(([file, targets]) =>
    targets
      .filter((to) => roomOf(to) !== roomOf(file) && !mayImport.get(roomOf(file))?.includes(roomOf(to)))
      .map((to) => `${file} imports ${to}`),
  )
  assert.deepEqual(wrong, [])
})

/** Where the cluster is plugged in. */
const PLUGS = ['library/index.ts', 'main.ts']

test('the cluster is a room that no other knows: only main.ts and the library plug it in', () => {
  const outside = files.filter((file) => roomOf(file) !== 'cluster')
  const plugs = outside.filter((file) => imports.get(file)?.some((target) => roomOf(target) === 'cluster'))
  assert.deepEqual(plugs.sort(), PLUGS)
  assert.deepEqual(
    outside.filter((file) => /nats/i.test(textOf(file))),
    [],
  )
})

test('a server without a cluster loads nothing of NATS', () => {
  const loaded = new Set<string>(PLUGS)
  for (const file of loaded) {
    const targets = textOf(file).matchAll(/^(?:import|export) (?!type )[^']*from '(\.?[^']+)'/gm)
    for (const [, target = ''] of targets) {
      assert.doesNotMatch(target, /nats/, file)
      if (target.startsWith('.')) loaded.add(relative(src, resolve(src, dirname(file), target)))
    }
  }
  assert.ok(loaded.has('cluster/cluster.ts') && loaded.has('server/service.ts'))
})

test('no files import each other in a circle', () => {
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    assert.ok(!path.includes(file), [...path.slice(path.indexOf(file)), file].join(' imports '))
    if (done.has(file)) return
    for (const target of imports.get(file) ?? []) visit(target, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})

test('the root of src holds main.ts alone', () => {
  assert.deepEqual(files.filter((file) => !file.includes('/')).sort(), ['main.ts'])
})

test('only main.ts touches process', () => {
  const touching = files.filter((file) => /\bprocess\.\w/.test(textOf(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')))
  assert.deepEqual(touching, ['main.ts'])
})

test('files of src are short', () => {
  const long = files.filter((file) => textOf(file).split('\n').length > MOST_LINES_OF_FILE)
  assert.deepEqual(long, [])
})

/** Files of test/, without the packages of test/clients. */
const tests = readdirSync(here, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !file.includes('node_modules'),
)

test('random tests take their seed from test/support/random.ts', () => {
  const wrong = tests
    .filter((file) => !/^(?:support\/random|tidy\.test)\.ts$/.test(file))
    .filter((file) => {
      const text = readFileSync(join(here, file), 'utf8')
      const runs = text.match(/\bfc\.(?:assert|check|sample)\(/g)?.length ?? 0
      return /Math\.random\(/.test(text) || runs !== (text.match(/\bseed: SEED, numRuns\b/g)?.length ?? 0)
    })
  assert.deepEqual(wrong, [])
})

test('every wait of a test has a deadline', () => {
  const wrong = tests
    .filter((file) => !/^(?:support\/deadline|tidy\.test|client\/in-browser\/host)\.ts$/.test(file))
    .flatMap((file) => faultsOf(readFileSync(join(here, file), 'utf8')).map((fault) => `${file}: ${fault}`))
  assert.deepEqual(wrong, [])
})

/** How a test waits without a deadline. Programs within the texts of tests may call `fetch`, as their file imports it. */
function faultsOf(text: string): readonly string[] {
  const [, imported = ''] = /^import \{([^}]*)\} from '[./\w]*deadline\.ts'$/m.exec(text) ?? []
  const faults: string[] = []
  if (/^import \{[^}]*\bonce\b[^}]*\} from 'node:events'$/m.test(text)) faults.push('once is that of node:events')
  // A declaration of a method names the type of what it takes.
  const hasFetch = /\bfetch\b/.test(imported) || /^ *const \{ [^}]*\bfetch\b[^}]* \} = await start/m.test(text)
  if (/(?<![.\w])fetch\((?!\w+\??: )/.test(text) && !hasFetch) faults.push('fetch is the global one')
  const code = text.replace(/`[^`]*`/g, '')
  if (/(?:await |rejects\()[\w.()]*\.ready\b/.test(code)) faults.push('ready of a live list is not in within')
  if (/ of (?!each\()[\w.]+\.(?:history|events)\(/.test(code)) faults.push('events are not in each')
  for (const { index } of text.matchAll(/\bnew Promise\b/g)) {
    const [executor = ''] = /^.*\{\n[\s\S]*?\n *\}\)|^.*/.exec(text.slice(index)) ?? []
    const listens = /\.(?:on|once|addEventListener)\(/.test(executor)
    const isWithin = /\bwithin\(\s*(?:`[^`]*`|'[^']*'),\s*$/.test(text.slice(0, index))
    if (listens && !isWithin) faults.push(`a promise waits for an event: ${executor.split('\n')[0]}`)
  }
  if (/\.emitWithAck\(/.test(text) && !/\bwithin\b/.test(imported) && !/\.timeout\(/.test(text))
    faults.push('emitWithAck is not in within')
  return faults
}

test('each name in scripts/runs.js selects at least one test of its file', () => {
  const wrong = Object.entries(RUNS).filter(([, { file, test: pattern }]) => {
    const names = readFileSync(join(here, '..', file), 'utf8').matchAll(
      /(?:test|describe)\(\s*['"`](.*?)['"`],|const \w+ = ['"`](.*)['"`]/g,
    )
    return (
      pattern !== undefined &&
      !Array.from(names).some(([, name = '', constant = '']) => new RegExp(pattern).test(name || constant))
    )
  })
  assert.deepEqual(wrong, [])
})

test('functions are short', () => {
  const long = files.flatMap((file) =>
    functionsOf(textOf(file))
      .filter(({ lines }) => lines > MOST_LINES_OF_FUNCTION)
      .map(({ name, lines }) => `${file}: ${name} has ${lines} lines`),
  )
  assert.deepEqual(long, [])
})

/** Functions and methods of formatted code: each ends with a brace that is indented as its first line is. */
function functionsOf(text: string): readonly { readonly name: string; readonly lines: number }[] {
  const lines = text.split('\n')
  return lines.flatMap((line, begin) => {
    const [, indent, name] = FUNCTION.exec(line) ?? []
    if (indent === undefined || name === undefined || KEYWORD.test(name)) return []
    const isAsDeep = (other: string): boolean => other.startsWith(indent) && /\S/.test(other.charAt(indent.length))
    const header = /[({]$/.test(line) && !line.endsWith(' {') ? lines.slice(begin + 1).find(isAsDeep) : line
    if (!header?.endsWith(' {') || header.endsWith('=> {')) return []
    const ends = [`${indent}}`, `${indent}},`]
    return [{ name, lines: lines.slice(begin).findIndex((other) => ends.includes(other)) + 1 }]
  })
}

const FUNCTION =
  /^( *)(?:export )?(?:(?:static|override|private|protected|async|get|set) )*(?:function\*? )?\*?([#\w]+)(?:<.*>)?\(/
const KEYWORD = /^(?:if|for|while|switch|catch|await|return|super|yield|throw)$/
