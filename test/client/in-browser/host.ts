import { fetch, within } from '../../support/deadline.ts'
import type * as host from '../host.ts'
import type { Answer, Call } from './run.ts'

export type * from '../host.ts'

// The page's `../host.ts`: sends each call to the process of the test.

globalThis.fetch = fetch as typeof globalThis.fetch

declare const callHost: (call: Call) => Promise<Answer>

export const startServer = functionOf('startServer')
export const startProgram = functionOf('startProgram')
export const startGuarded = functionOf('startGuarded')
export const startProxy = functionOf('startProxy')
export const lineTo = functionOf('lineTo')

export function uncaughtError(): Promise<unknown> {
  const error = new Promise((resolve) => {
    const caught = (event: Event): void => {
      event.preventDefault()
      resolve((event as Event & { readonly error: unknown }).error)
    }
    ;(globalThis as unknown as EventTarget).addEventListener('error', caught, { once: true })
  })
  return within('an error that nothing catches', error)
}

function functionOf<Name extends keyof typeof host>(name: Name): (typeof host)[Name] {
  const send = async (t: { readonly scope?: number }, ...args: readonly unknown[]): Promise<unknown> =>
    resultOf(await callHost({ scope: t.scope ?? 0, target: 0, name, args }))
  return send as unknown as (typeof host)[Name]
}

function resultOf(answer: Answer): unknown {
  if ('error' in answer) throw new Error(answer.error)
  if ('value' in answer) return answer.value
  const { target, fields, methods } = answer
  const remote = methods.map((name) => {
    const send = async (...args: readonly unknown[]): Promise<unknown> =>
      resultOf(await callHost({ scope: 0, target, name, args }))
    return [name, send] as const
  })
  return { ...fields, ...Object.fromEntries(remote) }
}
