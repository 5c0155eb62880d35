// The client for pages, imported from `/client/index.js`.
import { type ConnectOptions, connect as connectTo, type Recollect } from './index.ts'

export * from './index.ts'

/**
 * A client of the server at `url`. The default is the server that this file was loaded from, including the base path of
 * a proxy.
 */
export function connect(url?: string, options: ConnectOptions = {}): Recollect {
  const [, own] = /^(.*)\/client\/index\.js(?:[?#].*)?$/.exec(import.meta.url) ?? []
  return connectTo(url ?? own, options)
}
