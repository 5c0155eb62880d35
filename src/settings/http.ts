import { isIPv6 } from 'node:net'
import { TrustedProxies } from '../access/addresses.ts'
import { parseHost, parseOrigin } from '../access/origins.ts'
import { isOwnPath, parseBasePath } from '../http/base-path.ts'

export const ORIGINS = {
  mistakes: (origins: readonly string[]) =>
    origins
      .filter((one) => one !== '*' && !canBeSent(one))
      .map((one) => `must hold origins such as https://example.com, not ${JSON.stringify(one)}: ${originHint(one)}`),
}

/** Pages of these schemes do not exist, or have the origin `null`. */
const WITHOUT_ORIGIN = /^(?:wss?|ftp|about|blob|data|javascript|mailto):/i

function canBeSent(origin: string): boolean {
  return parseOrigin(origin) !== undefined && !WITHOUT_ORIGIN.test(origin)
}

/** The right form of a wrong origin. */
function originHint(text: string): string {
  if (text.includes('*')) return 'patterns are not supported; write each origin, or * for all'
  if (/^null$/i.test(text)) return 'write null'
  const scheme = /^[a-z][a-z\d+.-]*:\/\//i.exec(text)?.[0]
  const [authority = ''] = text.slice(scheme?.length ?? 0).split(/[/?#]/)
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  const usual = /^(?:localhost|127\.|\[::1\])/i.test(host) ? 'http://' : 'https://'
  const right = parseOrigin((scheme?.replace(/^ws/i, 'http') ?? usual) + host)
  return right === undefined || !canBeSent(right) ? 'write its scheme, host and port' : `write ${right}`
}

export const HOSTS = {
  mistakes: (hosts: readonly string[]) =>
    hosts
      .filter((one) => one !== '*' && parseHost(one) === undefined)
      .map(
        (one) => `must hold host names without a port such as data.example, not ${JSON.stringify(one)}${hostHint(one)}`,
      ),
}

/** The right form of a host with a scheme, a port or a path, or of an IPv6 address without brackets. */
function hostHint(text: string): string {
  const [authority = ''] = text.replace(/^[a-z][a-z\d+.-]*:\/\//i, '').split(/[/?#]/)
  if (text.includes('*')) return ': patterns are not supported; write each name, or * for all'
  const right = isIPv6(authority) ? `[${authority}]` : parseHost(authority.replace(/:\d*$/, ''))
  return right === undefined ? '' : `: write ${right}`
}

export const BASE_PATH = {
  mistakes: (text: string) => {
    const path = parseBasePath(text)
    if (path === undefined) return [`must be a path such as /recollect, not ${JSON.stringify(text)}`]
    if (!isOwnPath(path)) return []
    const reason = 'as the server has paths that begin so itself'
    return [`must not be ${path}, ${reason}. Let the proxy strip it and send it in X-Forwarded-Prefix`]
  },
  read: (text: string) => parseBasePath(text) ?? '',
}

export const PROXIES = {
  mistakes: (entries: readonly string[]) => {
    try {
      new TrustedProxies(entries)
      return []
    } catch (error) {
      return [`has a wrong entry: ${(error as Error).message}`]
    }
  },
}
