import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import type { Page } from 'playwright-core'
import { openPage } from '../../support/browser.ts'
import { once } from '../../support/deadline.ts'
import type { Scope } from '../../support/directory.ts'
import * as host from '../host.ts'

// Runs test files of the client in Chromium, as they are: only `node:test`, `node:assert` and `../host.ts` are others
// there. A page of another origin than the servers' runs the tests of one file.

/** A call of the page: of a function of `../host.ts` (target 0), or of a method of an object that one has returned. */
export interface Call {
  /** The test that it belongs to; 0 is the file. */
  readonly scope: number
  readonly target: number
  readonly name: string
  readonly args: readonly unknown[]
}

export type Answer =
  | { readonly error: string }
  | { readonly value: unknown }
  | {
      readonly target: number
      readonly fields: Readonly<Record<string, unknown>>
      readonly methods: readonly string[]
    }

export interface Outcome {
  readonly name: string
  /** The stack of the error with which the test failed. */
  readonly error: string | undefined
}

type Method = (...args: readonly unknown[]) => unknown

const here = fileURLToPath(new URL('.', import.meta.url))

/** Test files that are about Node or about the documentation, or that run the others in Chromium. */
const ONLY_IN_NODE = /^(browser|close$|docs$)/
/** Files that take long. Each is run by a test file of its own, which has a deadline. */
export const SLOW: readonly string[] = ['client', 'events', 'methods']

/** The names of all other test files of the client, without `.test.ts`. */
export const NAMES: readonly string[] = readdirSync(join(here, '..'))
  .flatMap((file) => /^(.*)\.test\.ts$/.exec(file)?.[1] ?? [])
  .filter((name) => !ONLY_IN_NODE.test(name))

/** Runs `test/client/<name>.test.ts`. Its tests are subtests. */
export async function runInChromium(t: TestContext, name: string): Promise<void> {
  const outcomes: Outcome[] = []
  const url = await startPage(t, await bundleOf(join(here, '..', `${name}.test.ts`)))
  const { page } = await openPage(t, 'about:blank')
  // Also an error of the file itself, before its first test.
  const failed = page.waitForEvent('pageerror', { timeout: 0 }).then((error) => Promise.reject(error))
  failed.catch(() => {})
  await serveHost(t, page)
  await page.exposeFunction('reportOutcome', async (outcome: Outcome) => {
    outcomes.push(outcome)
    await t.test(outcome.name, () => assert.ok(outcome.error === undefined, outcome.error))
  })
  await page.goto(url)
  const timeout = name.endsWith('.long') ? LONG_FILE_MS : FILE_MS
  await Promise.race([page.waitForFunction('globalThis.hasRun', undefined, { timeout }), failed])
  assert.ok(outcomes.length > 0, `${name} has no tests`)
}

/** Deadlines for a page that has crashed: shorter than those of a test file. */
const [FILE_MS, LONG_FILE_MS] = [4 * 60_000, 9 * 60_000]

/** Answers the calls of the page. */
async function serveHost(t: Scope, page: Page): Promise<void> {
  /** The hooks for the end of each test. */
  const ends = new Map<number, (() => unknown)[]>()
  let isOver = false
  const objects: Readonly<Record<string, Method>>[] = [host as unknown as Readonly<Record<string, Method>>]
  await page.exposeFunction('callHost', async ({ scope, target, name, args }: Call): Promise<Answer> => {
    const after = (end: () => unknown): void => {
      if (isOver) end()
      else ends.set(scope, [...(ends.get(scope) ?? []), end])
    }
    try {
      const method = objects[target]?.[name] as Method
      return answerOf(await (target === 0 ? method({ after }, ...args) : method(...args)))
    } catch (error) {
      return { error: String(error) }
    }
  })
  await page.exposeFunction('endScope', async (scope: number) => {
    for (const end of ends.get(scope) ?? []) await end()
    ends.delete(scope)
  })
  t.after(async () => {
    isOver = true
    for (const end of [...ends.values()].flat()) await end()
  })

  function answerOf(result: unknown): Answer {
    const members = Object.entries(result !== null && typeof result === 'object' ? result : {})
    const methods = members.filter(([, value]) => typeof value === 'function').map(([name]) => name)
    if (methods.length === 0) return { value: result }
    const fields = Object.fromEntries(members.filter(([name]) => !methods.includes(name)))
    return { target: objects.push(result as Readonly<Record<string, Method>>) - 1, fields, methods }
  }
}

async function bundleOf(file: string): Promise<string> {
  const entry = `
    import { runTests } from 'node:test'
    await import(${JSON.stringify(file)})
    await runTests()
    globalThis.hasRun = true`
  const { outputFiles } = await build({
    stdin: { contents: entry, resolveDir: here },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    define: { 'process.env': JSON.stringify(environment()), global: 'globalThis' },
    plugins: [browserModules],
    logLevel: 'warning',
  })
  return String(outputFiles[0]?.text)
}

/** Serves a page that runs a script. Returns its address. */
async function startPage(t: Scope, script: string): Promise<string> {
  const server = createServer(({ url }, response) => {
    const [type, body] =
      url === '/'
        ? ['text/html', '<!doctype html><link rel="icon" href="data:,"><script type="module" src="tests.js"></script>']
        : ['text/javascript', script]
    response.setHeader('Content-Type', `${type}; charset=utf-8`).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** The environment variables that make random tests larger, or repeat them. */
function environment(): Readonly<Record<string, string | undefined>> {
  return { SEED: process.env.SEED, CLIENT_WRITES: process.env.CLIENT_WRITES }
}

/** Replaces the modules that a page cannot load. */
const browserModules: Plugin = {
  name: 'browser-modules',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:test$/ }, () => ({ path: join(here, 'node-test.ts') }))
    onResolve({ filter: /^node:assert\/strict$/ }, () => ({ path: 'assert', namespace: 'assert' }))
    onResolve({ filter: /^\.\/host\.ts$/ }, () => ({ path: join(here, 'host.ts') }))
    onResolve({ filter: /^node:events$/ }, () => ({ path: 'events', namespace: 'none' }))
    onLoad({ filter: /.*/, namespace: 'none' }, () => ({ contents: 'export const once = undefined' }))
    onLoad({ filter: /.*/, namespace: 'assert' }, () => ({
      contents: "import assert from 'assert'; export default assert.strict",
      resolveDir: here,
    }))
    // The package assert looks for a terminal and for flags of Node.
    onLoad({ filter: /node_modules\/(?:assert|util)\/.*\.js$/ }, async ({ path }) => ({
      contents: `const process = {env: {}}\n${await readFile(path, 'utf8')}`,
    }))
  },
}
