import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const src = fileURLToPath(new URL('../src', import.meta.url))

/** design.md's table: which rooms a room may import from. A room may always import from itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  json: ['steps', 'errors'],
  errors: [],
  measures: [],
  steps: [],
  slices: ['steps', 'errors'],
  'long-list': [],
  turns: [],
  schedule: [],
  files: [],
  events: ['json', 'files', 'measures', 'long-list', 'errors'],
  store: ['events', 'files', 'steps', 'errors'],
  collections: ['events', 'json', 'slices', 'store', 'long-list', 'errors'],
  commands: ['collections', 'events', 'json', 'slices', 'store', 'long-list', 'errors'],
  projections: [
    'collections',
    'events',
    'files',
    'json',
    'slices',
    'store',
    'turns',
    'schedule',
    'long-list',
    'errors',
  ],
  cluster: ['collections', 'commands', 'events', 'files', 'json', 'measures', 'long-list', 'errors'],
  access: ['json', 'turns', 'errors'],
  http: ['access', 'commands', 'projections', 'events', 'json', 'measures', 'slices', 'errors'],
  sockets: ['access', 'commands', 'projections', 'events', 'json', 'slices', 'turns', 'errors'],
  client: ['sockets', 'json', 'steps'],
}
/** They may import all, and no room imports them. */
const TOP = [
  'service',
  'library',
  'surroundings',
  'engine',
  'replay-engine',
  'cluster-engine',
  'cluster-data-file',
  'engine-projections',
  'configured-data-file',
  'engine-surroundings',
  'durable-projections',
  'file-engine',
  'listening',
  'metrics',
  'descriptors',
  'open-gate',
  'cli',
  'main',
  'settings',
]

interface Import {
  readonly file: string
  readonly from: string
  readonly to: string
}

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((name) => /(?<!\.d)\.ts$/.test(name))
const imports = files.flatMap((file): Import[] => {
  const text = readFileSync(join(src, file), 'utf8')
  return [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(([, target]) => ({
    file,
    from: roomOf(file),
    to: roomOf(relative(src, resolve(src, dirname(file), target as string))),
  }))
})

function roomOf(path: string): string {
  return (path.split('/')[0] as string).replace(/\.ts$/, '')
}

test('imports run one way, as the table of rooms says', () => {
  assert.ok(imports.length > 50, 'the imports were found')
  const wrong = imports.filter(({ from, to }) => {
    if (from === to) return false
    if (TOP.includes(from)) return to === 'main'
    return !MAY_IMPORT[from]?.includes(to)
  })
  assert.deepEqual(wrong, [])
})

test('no room imports the composition root, the program or the settings', () => {
  const rooms = imports.filter(({ from }) => !TOP.includes(from))
  assert.deepEqual(
    rooms.filter(({ to }) => TOP.includes(to)),
    [],
  )
})

test('only main.ts touches process', () => {
  const touching = files.filter((file) =>
    /\bprocess\.\w/.test(readFileSync(join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')),
  )
  assert.deepEqual(touching, ['main.ts'])
})

test('no file of the source is long enough to need a table of contents', () => {
  const long = files.filter((file) => readFileSync(join(src, file), 'utf8').split('\n').length > 400)
  assert.deepEqual(long, [])
})
