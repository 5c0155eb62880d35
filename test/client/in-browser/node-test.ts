// The page's `node:test`: runs the tests of a file one after the other, and reports each.

import type { Outcome } from './run.ts'

declare const reportOutcome: (outcome: Outcome) => Promise<void>
declare const endScope: (scope: number) => Promise<void>

type Hook = () => unknown

interface Context {
  readonly scope: number
  after(hook: Hook): void
}

type Body = (t: Context) => unknown

const tests: { readonly name: string; readonly body: Body }[] = []
const hooks: Hook[] = []

export function test(name: string, body: Body): void {
  tests.push({ name, body })
}

export function after(hook: Hook): void {
  hooks.push(hook)
}

/** Called when the file has been evaluated. */
export async function runTests(): Promise<void> {
  for (const [index, { name, body }] of tests.entries()) {
    const ends: Hook[] = []
    const scope = index + 1
    let error: string | undefined
    try {
      await body({ scope, after: (hook) => ends.push(hook) })
    } catch (thrown) {
      error = thrown instanceof Error ? `${thrown.stack}` : String(thrown)
    }
    for (const end of ends) await end()
    await endScope(scope)
    await reportOutcome({ name, error })
  }
  for (const hook of hooks) await hook()
}
