import { isIPv6 } from 'node:net'
import { TrustedProxies } from '../access/addresses.ts'
import { parseHost, parseOrigin } from '../access/origins.ts'
import { isOwnPath, parseBasePath } from '../http/base-path.ts'
import type { Section } from './keys.ts'
import type { SettingValues } from './values.ts'

export interface HttpSettings {
  readonly cors: Section<'Cors'>
  /** The policy of pages; empty for none. */
  readonly contentSecurityPolicy: string
  /** The path below which a reverse proxy serves it: empty, or such as `/recollect`. */
  readonly basePath: string
  /** Names by which the server is reached. */
  readonly hosts: readonly string[]
  readonly keepAliveSeconds: number
  readonly limits: Section<'Limits'>
}

/** Checks the settings about HTTP, and adds their mistakes. */
export function readHttp(values: SettingValues, mistakes: string[]): HttpSettings {
  const cors = values.section('Cors')
  checkOrigins(cors, mistakes)
  const basePath = readBasePath(values.get('Http.BasePath'), mistakes)
  const hosts = values.get('Http.Hosts')
  checkHosts(hosts, mistakes)
  const limits = values.section('Limits')
  checkProxies(limits.trustedProxies, mistakes)
  const contentSecurityPolicy = values.get('Http.ContentSecurityPolicy')
  const keepAliveSeconds = values.get('Http.KeepAliveSeconds')
  return { cors, contentSecurityPolicy, basePath, hosts, keepAliveSeconds, limits }
}

function checkOrigins({ origins = [], credentials }: Section<'Cors'>, mistakes: string[]): void {
  for (const any of credentials ? ['*', 'null'].filter((one) => origins.includes(one)) : []) {
    mistakes.push(
      `Cors.Origins must not be ${any} together with Cors.Credentials: every page could act as its visitor.`,
    )
  }
  for (const origin of origins.filter((one) => one !== '*' && !canBeSent(one))) {
    mistakes.push(
      `Cors.Origins must hold origins such as https://example.com, not ${JSON.stringify(origin)}: ${originHint(origin)}`,
    )
  }
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

function readBasePath(text: string, mistakes: string[]): string {
  const path = parseBasePath(text)
  if (path === undefined) mistakes.push(`Http.BasePath must be a path such as /recollect, not ${JSON.stringify(text)}.`)
  else if (isOwnPath(path)) {
    mistakes.push(
      `Http.BasePath must not be ${path}, as the server has paths that begin so itself. Let the proxy strip it and send it in X-Forwarded-Prefix.`,
    )
  }
  return path ?? ''
}

function checkHosts(hosts: readonly string[], mistakes: string[]): void {
  for (const host of hosts.filter((one) => one !== '*' && parseHost(one) === undefined)) {
    mistakes.push(
      `Http.Hosts must hold host names without a port such as data.example, not ${JSON.stringify(host)}${hostHint(host)}`,
    )
  }
}

/** The right form of a host with a scheme, a port or a path, or of an IPv6 address without brackets. */
function hostHint(text: string): string {
  const [authority = ''] = text.replace(/^[a-z][a-z\d+.-]*:\/\//i, '').split(/[/?#]/)
  if (text.includes('*')) return ': patterns are not supported; write each name, or * for all'
  const right = isIPv6(authority) ? `[${authority}]` : parseHost(authority.replace(/:\d*$/, ''))
  return right === undefined ? '' : `: write ${right}`
}

function checkProxies(entries: readonly string[], mistakes: string[]): void {
  try {
    new TrustedProxies(entries)
  } catch (error) {
    mistakes.push(`Limits.TrustedProxies: ${(error as Error).message}.`)
  }
}
