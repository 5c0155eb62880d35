// Where the server is, and what the browser keeps of it.

/** The server's address without a slash at the end: a proxy may have put it below a path that the server does not know. */
export const base = new URL('.', location.href).href.replace(/\/$/, '')

/** The command that creates an item. */
export function curlOf(collection: string, item: object): string {
  return `curl ${base}/api/${collection} -H "Content-Type: application/json" -d '${JSON.stringify(item)}'`
}

/** The name of what is kept in the browser's storage: several servers may be below paths of one origin and share it. */
export function kept(name: string): string {
  return `recollect.${name} ${new URL(base).pathname}`
}
