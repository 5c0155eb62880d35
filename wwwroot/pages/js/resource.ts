// Answers of the server, read again whenever something that they depend on changes, one request at a time.
import { effect, type ReadonlySignal, signal } from '@preact/signals'
import { Problem, Unreachable } from '../../../src/client/index.ts'
import { epoch, role } from './app.ts'
import { isMomentKnown } from './time.ts'

export interface Resource<T> {
  /** Undefined until there is one. While another is read it is the one before. */
  readonly value: ReadonlySignal<T | undefined>
  readonly isReading: ReadonlySignal<boolean>
  readonly error: ReadonlySignal<Error | undefined>
}

const RETRY_MS = 1000
/** Statuses of a busy server. */
const PASSING = [429, 503]

/**
 * Reads with each new key, and after a reconnection; undefined: nothing is to be read, and there is no value. Keys are
 * compared as JSON. What came meanwhile is read once, `restMs` after the last answer.
 */
export function resource<K, T>(key: () => K | undefined, read: (key: K) => Promise<T>, restMs = 0): Resource<T> {
  const value = signal<T>()
  const isReading = signal(false)
  const error = signal<Error>()
  let wanted: K | undefined
  let known = ''
  let isRunning = false
  let turn = 0
  const wantedText = (): string => JSON.stringify([turn, wanted])

  effect(() => {
    turn = epoch.value
    wanted = !role.value || !isMomentKnown.value ? undefined : key()
    if (wanted === undefined) {
      known = ''
      value.value = undefined
      error.value = undefined
    } else if (!isRunning) void run()
  })
  return { value, isReading, error }

  async function run(): Promise<void> {
    isRunning = true
    for (let text = wantedText(); wanted !== undefined && text !== known; text = wantedText()) {
      const own = wanted
      known = text
      isReading.value = true
      try {
        const answer = await read(own)
        if (wanted !== undefined) {
          error.value = undefined
          value.value = answer
        }
      } catch (problem) {
        if (isPassing(problem)) {
          known = ''
          await pause(RETRY_MS)
        } else if (wantedText() === text) error.value = problem as Error
      }
      isReading.value = false
      if (restMs > 0) await pause(restMs)
    }
    isRunning = false
  }
}

/** Whether the same request may succeed later. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof Problem)) return error instanceof Unreachable
  // What is damaged stays so.
  return PASSING.includes(error.status) && error.firstUnreadable === undefined
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The value of a signal that has lasted so long. */
export function settled<T>(source: ReadonlySignal<T>, ms: number): ReadonlySignal<T> {
  const shown = signal(source.peek())
  effect(() => {
    const { value } = source
    const timer = setTimeout(() => {
      shown.value = value
    }, ms)
    return () => clearTimeout(timer)
  })
  return shown
}

/** The value of a signal, at most once in an interval: for what changes more often than one can read. */
export function calm<T>(source: ReadonlySignal<T>, ms: number): ReadonlySignal<T> {
  const shown = signal(source.peek())
  let timer: ReturnType<typeof setTimeout> | undefined
  effect(() => {
    if (source.value !== shown.peek() && timer === undefined) show()
  })
  return shown

  function show(): void {
    shown.value = source.peek()
    timer = setTimeout(() => {
      timer = undefined
      if (source.peek() !== shown.peek()) show()
    }, ms)
  }
}
