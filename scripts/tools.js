// What tests need beyond npm. A missing tool is named, and the tests that need it say why they are skipped. With
// CI=true or RECOLLECT_INSTALL_TOOLS=1 missing tools are installed (Debian, as root); with CI=true they must be there.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const TOOLS = [
  {
    name: 'chromium',
    paths: ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
    variable: 'CHROMIUM',
  },
  { name: 'nats-server', paths: ['/usr/sbin/nats-server', '/usr/local/bin/nats-server'], variable: 'NATS_SERVER' },
  { name: 'openssl', paths: ['/usr/bin/openssl', '/usr/local/bin/openssl'], variable: 'OPENSSL' },
  { name: 'iproute2', paths: ['/usr/sbin/ip', '/sbin/ip', '/usr/bin/ip'], variable: 'IPROUTE2' },
  { name: 'jq', paths: ['/usr/bin/jq', '/usr/local/bin/jq'], variable: 'JQ' },
  { name: 'rsync', paths: ['/usr/bin/rsync', '/usr/local/bin/rsync'], variable: 'RSYNC' },
  { name: 'strace', paths: ['/usr/bin/strace', '/usr/local/bin/strace'], variable: 'STRACE' },
  { name: 'systemd', paths: ['/usr/bin/systemd-analyze'], variable: 'SYSTEMD_ANALYZE' },
]

// Debian starts their services where there is an init system. These listen on ports that no test uses: 80, 2019, 9090.
const TOOLS_OF_CLIENTS = [
  { name: 'caddy', paths: ['/usr/bin/caddy', '/usr/local/bin/caddy'], variable: 'CADDY' },
  { name: 'nginx', paths: ['/usr/sbin/nginx', '/usr/local/sbin/nginx'], variable: 'NGINX' },
  { name: 'prometheus', paths: ['/usr/bin/promtool', '/usr/local/bin/promtool'], variable: 'PROMTOOL' },
]

/** The environment variables that tell the tests where each tool is. */
export function provideTools({ hasClients }) {
  const { CI, RECOLLECT_INSTALL_TOOLS } = process.env
  const tools = hasClients ? [...TOOLS, ...TOOLS_OF_CLIENTS] : TOOLS
  const missing = tools.filter((tool) => !find(tool)).map(({ name }) => name)
  if (missing.length > 0 && (CI === 'true' || RECOLLECT_INSTALL_TOOLS === '1')) install(missing)
  const env = {}
  for (const tool of tools) {
    const path = find(tool)
    if (path) env[tool.variable] = path
    else if (CI === 'true') throw new Error(`${tool.name} is missing and could not be installed`)
    else
      process.stderr.write(`${tool.name} is missing: tests that need it are skipped (apt-get install ${tool.name})\n`)
  }
  return env
}

function find({ paths, variable }) {
  return [process.env[variable], ...paths].find((path) => path && existsSync(path))
}

function install(names) {
  if (process.getuid?.() !== 0 || spawnSync('apt-get', ['--version']).status !== 0) return
  process.stderr.write(`installing ${names.join(', ')}\n`)
  const options = { stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  spawnSync('apt-get', ['update', '-qq'], options)
  spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names], options)
}
