/** An address to listen on; no host means every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
}

export const DEFAULT_URL = 'http://localhost:57602'

export function parseUrls(list: string, mistakes: string[]): readonly Address[] {
  const addresses: Address[] = []
  for (const text of list.split(';').filter((piece) => piece.trim() !== '')) {
    const isEvery = /^http:\/\/[*+](?=[:/]|$)/i.test(text.trim())
    const named = isEvery ? text.trim().replace(/[*+]/, 'localhost') : text.trim()
    const url = URL.canParse(named) ? new URL(named) : undefined
    if (url?.protocol !== 'http:' || url.pathname !== '/' || /[?#@]/.test(named) || /[*+]/.test(url.hostname)) {
      mistakes.push(`The flag --urls must hold addresses such as ${DEFAULT_URL}, not ${JSON.stringify(text)}.`)
    } else {
      const host = isEvery ? undefined : url.hostname.replace(/^\[|\]$/g, '')
      addresses.push({ host, port: url.port === '' ? 80 : Number(url.port) })
    }
  }
  if (addresses.length === 0 && mistakes.length === 0) mistakes.push('The flag --urls needs an address.')
  return addresses
}

export function textOf({ host = '*', port }: Address): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Whether others than this machine's own programs can connect. */
export function isPublic({ host }: Address): boolean {
  return host === undefined || !(host === 'localhost' || host === '::1' || host.startsWith('127.'))
}
