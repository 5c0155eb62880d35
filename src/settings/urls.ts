import type { ParsedFlags } from './flags.ts'

/** An address to listen on; without a host, on every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
}

const DEFAULT_HOST = 'localhost'
const DEFAULT_PORT = '57602'
const JSON_SERVER_PORT = '3000'
export const DEFAULT_URL = `http://${DEFAULT_HOST}:${DEFAULT_PORT}`

/** The addresses of --urls, or the one of --host and --port. */
export function addressesOf(
  flags: Pick<ParsedFlags, 'text'>,
  isJsonServer: boolean,
  mistakes: string[],
): readonly Address[] {
  const [urls, host, sent] = [flags.text('urls'), flags.text('host'), flags.text('port')]
  const port = sent ?? (isJsonServer && urls === undefined ? JSON_SERVER_PORT : undefined)
  if (host === undefined && port === undefined) return parseUrls(urls ?? DEFAULT_URL, mistakes)
  if (urls !== undefined) mistakes.push('Give either --urls, or --host and --port.')
  return parseHostAndPort(host, port, mistakes)
}

function parseUrls(list: string, mistakes: string[]): readonly Address[] {
  const addresses: Address[] = []
  for (const text of list.split(';').filter((piece) => piece.trim() !== '')) {
    const address = text.trim()
    // `http://*:80` means all interfaces; URL cannot parse it.
    const isWildcard = /^http:\/\/[*+](?=[:/]|$)/i.test(address)
    const parsable = isWildcard ? address.replace(/[*+]/, 'localhost') : address
    const url = URL.canParse(parsable) ? new URL(parsable) : undefined
    if (url?.protocol !== 'http:' || url.pathname !== '/' || /[?#@]/.test(parsable) || /[*+]/.test(url.hostname)) {
      mistakes.push(`The flag --urls must hold addresses such as ${DEFAULT_URL}, not ${JSON.stringify(text)}.`)
    } else {
      const host = isWildcard ? undefined : url.hostname.replace(/^\[|\]$/g, '')
      addresses.push({ host, port: url.port === '' ? 80 : Number(url.port) })
    }
  }
  if (addresses.length === 0 && mistakes.length === 0) mistakes.push('The flag --urls needs an address.')
  return addresses
}

function parseHostAndPort(host = DEFAULT_HOST, port = DEFAULT_PORT, mistakes: string[]): readonly Address[] {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65535) {
    mistakes.push(`The flag --port must be a number from 0 to 65535, not ${JSON.stringify(port)}.`)
    return []
  }
  const shown = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  const addresses = host.includes(';') ? [] : parseUrls(`http://${shown}:${port}`, [])
  if (addresses.length === 0) {
    mistakes.push(`The flag --host must be a host name or an address, such as 0.0.0.0, not ${JSON.stringify(host)}.`)
  }
  return addresses
}

export function urlOf({ host = '*', port }: Address): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Whether other machines can connect. */
export function isPublic({ host }: Address): boolean {
  return host === undefined || !(host === 'localhost' || host === '::1' || host.startsWith('127.'))
}
