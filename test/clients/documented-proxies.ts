import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetch, until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { freePort, startProcess } from '../support/process.ts'

const DOCUMENT = readFileSync(fileURLToPath(new URL('../../docs/security.md', import.meta.url)), 'utf8')

/** Starts a proxy in front of the server at that address, and returns its own. */
export type StartProxy = (t: Scope, target: string) => Promise<string>

interface ReverseProxy {
  readonly name: string
  readonly start: StartProxy
  /** Why tests that need it are skipped, or false. */
  readonly skip: string | false
}

/** The proxies of docs/security.md, with the configurations that are there. */
export const PROXIES: readonly ReverseProxy[] = [
  { name: 'nginx', start: startNginx, skip: unlessThere('NGINX', 'nginx') },
  { name: 'Caddy', start: startCaddy, skip: unlessThere('CADDY', 'caddy') },
]

export function unlessThere(variable: string, name: string): string | false {
  return process.env[variable] === undefined ? `${name} is missing (apt-get install ${name})` : false
}

/** TLS is left out; addresses and the directories of files differ. */
async function startNginx(t: Scope, target: string): Promise<string> {
  const directory = await temporaryDirectory(t)
  const address = await freeAddress()
  const site = adapted(documented('nginx'), [
    ['127.0.0.1:57602', new URL(target).host],
    ['listen 443 ssl;', `listen ${address};`],
    [/^ *ssl_certificate.*\n/gm, ''],
  ])
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${of};`)
  const settings = ['access_log off;', ...temporary, site].join('\n')
  const file = join(directory, 'nginx.conf')
  // A single process, so that it ends with the test, and runs as its user.
  await writeFile(file, `daemon off; master_process off; pid nginx.pid; events {} http {\n${settings}\n}`)
  return started(t, [process.env.NGINX ?? '', '-p', directory, '-c', file, '-e', 'stderr'], address)
}

/** HTTP instead of HTTPS, for any host. */
async function startCaddy(t: Scope, target: string): Promise<string> {
  const directory = await temporaryDirectory(t)
  const address = await freeAddress()
  const site = adapted(documented('caddyfile'), [
    ['127.0.0.1:57602', new URL(target).host],
    ['data.example {', `http://:${new URL(`http://${address}`).port} {\n  bind 127.0.0.1`],
  ])
  const file = join(directory, 'Caddyfile')
  await writeFile(file, `{\n  admin off\n}\n${site}`)
  const command = [process.env.CADDY ?? '', 'run', '--config', file, '--adapter', 'caddyfile']
  return started(t, command, address, { HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory })
}

/** The only block of docs/security.md in a language. */
function documented(language: string): string {
  const [, block, ...others] = DOCUMENT.split(new RegExp(`^ *\`\`\`${language}\n`, 'm'))
  if (block === undefined || others.length > 0) throw new Error(`not one configuration of ${language}`)
  return block.slice(0, block.indexOf('```'))
}

function adapted(text: string, replacements: readonly (readonly [what: string | RegExp, by: string])[]): string {
  return replacements.reduce((adaptedSoFar, [what, by]) => {
    const next = adaptedSoFar.replace(what, by)
    if (next === adaptedSoFar) throw new Error(`the documented configuration has no ${what}`)
    return next
  }, text)
}

async function freeAddress(): Promise<string> {
  return `127.0.0.1:${await freePort()}`
}

async function started(t: Scope, command: readonly string[], address: string, env = {}): Promise<string> {
  const { process, output } = startProcess(t, command, { env })
  const url = `http://${address}`
  await until(`a proxy at ${url}`, () => {
    if (process.exitCode !== null) throw new Error(`the proxy has ended:\n${output()}`)
    return fetch(`${url}/health`).then(
      ({ status }) => status === 200,
      () => false,
    )
  })
  return url
}
