import { type TestContext, test } from 'node:test'

export interface Reason {
  /** The difference between what the client expects and what the server does. */
  readonly because: string
  /** Matches the status and the message of the error, so that no other failure counts. */
  readonly error: RegExp
}

type Body = (t: TestContext) => Promise<unknown>

/** A test that fails today. It passes while its body fails for the reason given, and fails as soon as the body passes. */
export function expectedToFail(name: string, reason: Reason, body: Body): void {
  test(`${name} (expected to fail)`, async (t) => {
    t.diagnostic(`expected to fail: ${reason.because}`)
    await failsWith(reason.error, () => body(t))
  })
}

/** Resolves when the body fails with such an error, and rejects with any other error, or when there is none. */
export async function failsWith(pattern: RegExp, body: () => Promise<unknown>): Promise<void> {
  let error: unknown
  try {
    await body()
  } catch (thrown) {
    error = thrown
  }
  if (error === undefined) throw new Error('works now: make it a test')
  if (!pattern.test(textOf(error))) throw error
}

/** The clients' errors have the status of the response as `status` or `statusCode`, if at all. */
function textOf(error: unknown): string {
  const { status, statusCode, message } = error as Record<string, unknown>
  return [status ?? statusCode, message].filter((part) => part !== undefined).join(' ')
}
