import { TrustedProxies } from '../access/addresses.ts'
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
  return { cors, contentSecurityPolicy: values.get('Http.ContentSecurityPolicy'), basePath, hosts, limits }
}

function checkOrigins({ origins = [], credentials }: Section<'Cors'>, mistakes: string[]): void {
  for (const origin of origins) {
    if (origin === '*' && credentials) {
      mistakes.push('Cors.Origins must not be * together with Cors.Credentials: every page could act as its visitor.')
    }
    if (origin !== '*' && !(URL.canParse(origin) && new URL(origin).origin === origin)) {
      mistakes.push(`Cors.Origins must hold origins such as https://example.com, not ${JSON.stringify(origin)}.`)
    }
  }
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

/** A host without a port: a name, an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:\*|[a-z\d_.-]+|\[[a-f\d:.]+\])$/i

function checkHosts(hosts: readonly string[], mistakes: string[]): void {
  for (const host of hosts.filter((one) => !HOST.test(one))) {
    mistakes.push(`Http.Hosts must hold host names without a port such as data.example, not ${JSON.stringify(host)}.`)
  }
}

function checkProxies(entries: readonly string[], mistakes: string[]): void {
  try {
    new TrustedProxies(entries)
  } catch (error) {
    mistakes.push(`Limits.TrustedProxies: ${(error as Error).message}.`)
  }
}
