import { chmod, chown, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { type Bench, installed } from './bench.ts'
import { run } from './load.ts'
import { POSTGRES } from './versions.ts'

/** A database that appends durably, as its own clients load it. */
export interface Database {
  /** Appends a second, over 64 connections. */
  rate(): Promise<number>
  stop(): Promise<void>
}

const CONNECTIONS = 64

/** A port of the loopback interface that is free now. */
export async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

/** Undefined, with a word why, where it is not installed. */
export async function startPostgres(bench: Bench, body: string): Promise<Database | undefined> {
  if (!POSTGRES) return missing(bench, 'PostgreSQL is not installed (no /usr/lib/postgresql/*/bin)')
  const directory = await bench.fixtures.directory()
  const bin = (name: string) => join(POSTGRES as string, name)
  // It refuses to be root.
  const isRoot = process.getuid?.() === 0
  const ids = isRoot ? await run('id', ['-u', 'postgres'], 5000).catch(() => '') : ''
  if (isRoot && ids === '') return missing(bench, 'PostgreSQL does not run as root, and there is no user postgres')
  if (isRoot) {
    await chmod(join(directory, '..'), 0o711)
    await chown(directory, Number(ids), Number(await run('id', ['-g', 'postgres'], 5000)))
  }
  const as = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : []
  const call = (command: string, args: readonly string[]): readonly [string, readonly string[]] => {
    const [first = '', ...rest] = [...as, command, ...args]
    return [first, rest]
  }
  const data = join(directory, 'data')
  await run(...call(bin('initdb'), ['-D', data, '-A', 'trust', '-U', 'bench', '--no-locale', '-E', 'UTF8']), 60_000)
  const port = String(await freePort())
  const [command, args] = call(bin('postgres'), [
    ...['-D', data, '-k', directory, '-h', '127.0.0.1', '-p', port],
    ...[
      '-c',
      'fsync=on',
      '-c',
      'synchronous_commit=on',
      '-c',
      'wal_sync_method=fdatasync',
      '-c',
      'max_connections=100',
    ],
  ])
  const server = await bench.servers.start({ command, args, ready: /ready to accept connections/, url: '' })
  const connect = ['-h', '127.0.0.1', '-p', port, '-U', 'bench']
  const table = 'CREATE TABLE readings (id bigserial PRIMARY KEY, body jsonb NOT NULL)'
  await run(bin('psql'), [...connect, '-d', 'postgres', '-c', table], 10_000)
  const script = join(directory, 'insert.sql')
  await writeFile(script, 'INSERT INTO readings (body) VALUES (:body) RETURNING id;\n')
  await chmod(script, 0o644)
  return {
    async rate() {
      const load = ['-n', '-M', 'prepared', '-f', script, '-D', `body=${body}`, '-c', String(CONNECTIONS), '-j', '1']
      const said = await run(
        bin('pgbench'),
        [...connect, ...load, '-T', String(bench.seconds), 'postgres'],
        (bench.seconds + 60) * 1000,
      )
      return Number(/tps = ([\d.]+)/.exec(said)?.[1])
    },
    stop: () => server.stop(),
  }
}

/** Undefined, with a word why, where it is not installed. */
export async function startRedis(bench: Bench, body: string): Promise<Database | undefined> {
  const [program, client] = ['redis-server', 'redis-benchmark'].map((name) =>
    installed(`/usr/bin/${name}`, `/usr/local/bin/${name}`),
  )
  if (!program || !client) return missing(bench, 'Redis is not installed (redis-server, redis-benchmark)')
  const port = String(await freePort())
  const server = await bench.servers.start({
    command: program,
    args: [
      ...['--port', port, '--bind', '127.0.0.1', '--dir', await bench.fixtures.directory(), '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
    ],
    ready: /Ready to accept connections/,
    url: '',
  })
  return {
    async rate() {
      const count = String(bench.seconds * 40_000)
      const load = ['-c', String(CONNECTIONS), '-n', count, '--csv', 'XADD', 'readings', '*', 'body', body]
      const said = await run(client, ['-h', '127.0.0.1', '-p', port, ...load], 120_000)
      return Number(/^"XADD[^\n]*?","([\d.]+)"/m.exec(said)?.[1])
    },
    stop: () => server.stop(),
  }
}

/** Says that a server is left out, and why. */
export function missing(bench: Bench, why: string): undefined {
  bench.say(`left out: ${why}`)
  return undefined
}
