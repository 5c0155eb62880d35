import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { segmentName } from '../../src/events/segment.ts'
import type { Scope } from '../support/directory.ts'
import { json, plainSegments, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'

export const FIRST = { a: [{ id: 'x', n: 0 }], b: [] }

/** A server that has put the item `x` of `a` so many times, and added as many to `b`: `n` is the round. */
export async function startWritten(t: Scope, rounds: number): Promise<RunningProgram> {
  const server = await startProgram(t, { data: FIRST, flags: plainSegments(2000) })
  await write(server, 1, rounds)
  return server
}

export async function write(server: RunningProgram, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) {
    await accepted(server.fetch('/api/a/x', json('PUT', { n })))
    await accepted(server.fetch('/api/b', json('POST', { n })))
  }
}

async function accepted(answer: Promise<Response>): Promise<void> {
  const { ok, status } = await answer
  if (!ok) throw new Error(`a write was answered with ${status}`)
}

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A command on `db.json` of a directory. */
export function recollect(t: Scope, directory: string, command: string, ...flags: string[]): Promise<Ran> {
  return runToEnd(t, directory, [command, '--file', join(directory, 'db.json'), ...flags])
}

export function segmentOf(directory: string, first = 1): string {
  return join(directory, 'db.journal', segmentName(first))
}

/** Changes a file's bytes. */
export async function edit(path: string, change: (bytes: Buffer) => Buffer | string): Promise<void> {
  await writeFile(path, change(await readFile(path)))
}

export async function readJson<T = unknown>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, 'utf8')) as T
}
