import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { freePort } from '../support/process.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

/** A server that is stopped and started again at the same address. */
export interface Restartable {
  readonly url: string
  fetch(path: string, init?: RequestInit): Promise<Response>
  stop(): Promise<unknown>
  start(): Promise<void>
}

export async function startRestartable(t: Scope, data: unknown): Promise<Restartable> {
  const directory = await temporaryDirectory(t)
  const url = `http://127.0.0.1:${await freePort()}`
  const start = (): Promise<RunningProgram> =>
    startProgram(t, { directory, data, isBare: true, flags: ['--file', 'db.json', '--urls', url] })
  let running = await start()
  return {
    url,
    fetch: (path, init) => running.fetch(path, init),
    stop: () => running.stop(),
    async start() {
      running = await start()
    },
  }
}
