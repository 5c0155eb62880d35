// The client as pages import it from `/client/index.js`.
import { type ConnectOptions, connect as connectTo, type Recollect } from './index.ts'

export * from './index.ts'

/** A client of the server at `url`. The default is the server that this file came from, also where a proxy has it below a path. */
export function connect(url?: string, options: ConnectOptions = {}): Recollect {
  const [, own] = /^(.*)\/client\/index\.js(?:[?#].*)?$/.exec(import.meta.url) ?? []
  return connectTo(url ?? own, options)
}
