import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import spectralCore, { type RulesetDefinition } from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'
import openapiTS, { astToString } from 'openapi-typescript'
import { generate } from 'orval'
import { authentication, keyOf } from '../support/authentication.ts'
import { DEADLINE_MS } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'
import { AS_JSON_SERVER, BLOG } from './blog.ts'
import { ODD } from './odd.ts'

const HERE = fileURLToPath(new URL('../../test/clients/', import.meta.url))
const run = promisify(execFile)

const BLOG_WITH_PROFILE = { ...BLOG, profile: { theme: 'dark' } }
const OF_ODD = ['--DataStore.IdField', '_id']
const SCHEMA = { type: 'object', required: ['title'], properties: { title: { type: 'string', minLength: 1 } } }
const SAMPLE = JSON.parse(await readFile('data/sensors.json', 'utf8'))

/** The servers whose documents are checked. */
const SERVERS: Readonly<Record<string, { readonly data: unknown; readonly flags?: readonly string[] }>> = {
  sample: { data: SAMPLE },
  blog: { data: BLOG_WITH_PROFILE },
  'json-server': { data: BLOG_WITH_PROFILE, flags: [...AS_JSON_SERVER, ...authentication(['token'])] },
  results: { data: BLOG_WITH_PROFILE, flags: ['--Api.UseResultObject', 'true', ...authentication(['basic'])] },
  schema: { data: BLOG, flags: ['--Collections', JSON.stringify({ posts: { Schema: SCHEMA } })] },
  odd: { data: ODD, flags: [...OF_ODD, ...authentication(['token', 'basic', 'apikey'])] },
  'read-only': { data: ODD, flags: [...OF_ODD, '--read-only', ...authentication(['apikey'])] },
  'below a path': { data: BLOG, flags: ['--Http.BasePath', '/recollect'] },
  empty: { data: {} },
}

interface Document {
  readonly paths: Readonly<Record<string, object>>
}

const documents = new Map<string, string>()

before(async () => {
  for (const [name, options] of Object.entries(SERVERS))
    documents.set(name, await documentOf(await startProgram({ after }, options)))
  const directory = await temporaryDirectory({ after })
  const first = await startProgram({ after }, { directory, data: BLOG })
  await first.fetch('/api/posts', { method: 'PUT' })
  await first.stop()
  const own = ['replay', '--file', first.file, '--urls', 'http://127.0.0.1:0', '--from', '1']
  documents.set('replay', await documentOf(await startProgram({ after }, { directory, isBare: true, flags: own })))
})

async function documentOf(server: Pick<RunningProgram, 'fetch'>): Promise<string> {
  const response = await server.fetch('/openapi.json')
  assert.equal(response.status, 200)
  return response.text()
}

test('redocly finds nothing to complain of in the document of any server', async (t) => {
  const directory = await temporaryDirectory(t)
  const files: string[] = []
  for (const [name, text] of documents) {
    files.push(join(directory, `${name}.json`))
    await writeFile(join(directory, `${name}.json`), text)
  }
  const rules = {
    // Every operation has `default`, which is a problem.
    'operation-4xx-response': 'off',
  }
  await writeFile(join(directory, 'redocly.yaml'), JSON.stringify({ extends: ['recommended'], rules }))
  const cli = join(HERE, 'node_modules/@redocly/cli/bin/cli.js')
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const options = { cwd: directory, env, timeout: DEADLINE_MS, maxBuffer: 2 ** 26 }
  const { stdout } = await outputOf(run(process.execPath, [cli, 'lint', ...files, '--format=stylish'], options))
  assert.equal(stdout, '')
})

test('spectral finds nothing to complain of in the document of any server', async () => {
  const spectral = new spectralCore.Spectral()
  spectral.setRuleset({
    extends: [[rulesets.oas, 'recommended']],
    rules: {
      // The summary of many operations says all, and nobody knows whom to contact about a server.
      'operation-description': 'off',
      'info-contact': 'off',
      // It takes a field with the name `$ref` for a reference.
      'no-$ref-siblings': 'off',
    },
  } as unknown as RulesetDefinition)
  for (const [name, text] of documents) {
    const document = JSON.parse(text) as Document
    // Spectral decodes the path where it resolves a reference, and then takes it for two paths.
    const paths = Object.entries(document.paths).map(([path, item]) => [path.replaceAll('%', '='), item])
    const found = await spectral.run({ ...document, paths: Object.fromEntries(paths) })
    assert.deepEqual(
      found.map(({ code, path, message }) => `${code} at ${path.join('.')}: ${message}`),
      [],
      name,
    )
  }
})

test('the clients of every document compile under strict rules', async (t) => {
  for (const [name, text] of documents) {
    await t.test(name, async (t) => compile(await generateClients(t, text)))
  }
})

test('openapi-fetch and orval work with a blog', async (t) => {
  for (const program of ['blog-fetch', 'blog-orval']) {
    await t.test(program, async (t) => {
      const server = await startProgram(t, { data: BLOG_WITH_PROFILE })
      await runProgram(t, await documentOf(server), program, server.url)
    })
  }
})

test('openapi-fetch and orval work with odd names, text ids under another name, and an API key', async (t) => {
  const flags = [...OF_ODD, ...authentication(['token', 'basic', 'apikey'])]
  const server = await startProgram(t, { data: ODD, flags })
  await runProgram(t, await documentOf(server), 'odd', server.url, keyOf('writer'))
})

async function runProgram(t: TestContext, document: string, program: string, ...parameters: string[]): Promise<void> {
  const directory = await generateClients(t, document)
  await cp(join(HERE, 'programs', `${program}.ts`), join(directory, 'program.ts'))
  await compile(directory)
  await run(process.execPath, [join(directory, 'out/program.js'), ...parameters], { timeout: DEADLINE_MS })
}

/** Writes `paths.ts` and `orval.ts` into a new directory. */
async function generateClients(t: TestContext, document: string): Promise<string> {
  const directory = await temporaryDirectory(t)
  await symlink(join(HERE, 'node_modules'), join(directory, 'node_modules'))
  await writeFile(join(directory, 'package.json'), '{"type": "module"}')
  await cp(join(HERE, 'programs/request.ts'), join(directory, 'request.ts'))
  await writeFile(join(directory, 'paths.ts'), astToString(await openapiTS(document)))
  const mutator = { path: join(directory, 'request.ts'), name: 'request', extension: '.ts' }
  await writeFile(join(directory, 'openapi.json'), document)
  const output = {
    target: join(directory, 'orval.ts'),
    client: 'axios-functions',
    override: { mutator },
  } as const
  await generate({ input: { target: join(directory, 'openapi.json') }, output }, directory)
  assert.ok((await readdir(directory)).includes('orval.ts'))
  return directory
}

async function compile(directory: string): Promise<void> {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noImplicitOverride: true,
    noFallthroughCasesInSwitch: true,
    target: 'es2023',
    module: 'nodenext',
    lib: ['es2023', 'dom'],
    types: ['node'],
    typeRoots: [resolve('node_modules/@types')],
    rewriteRelativeImportExtensions: true,
    skipLibCheck: true,
    outDir: 'out',
  }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const tsc = resolve('node_modules/typescript/bin/tsc')
  const { stdout } = await outputOf(run(process.execPath, [tsc, '-p', directory], { timeout: DEADLINE_MS }))
  assert.equal(stdout, '')
}

/** Also of a command that failed because of what it wrote. */
function outputOf(running: Promise<{ readonly stdout: string }>): Promise<{ readonly stdout: string }> {
  return running.catch((error) => {
    if (error.stdout) return error
    throw error
  })
}
