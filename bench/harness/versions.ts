import { readFileSync } from 'node:fs'
import { release } from 'node:os'
import { installed } from './bench.ts'
import { run } from './load.ts'

export const POSTGRES = installed(
  '/usr/lib/postgresql/17/bin',
  '/usr/lib/postgresql/16/bin',
  '/usr/lib/postgresql/15/bin',
)

/** The subject of the measurement, and its environment. */
export async function versions(): Promise<string> {
  const { dependencies } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  const peers = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`)
  const programs = await Promise.all(
    [
      ['wrk', '-v'],
      ['fio', '--version'],
      ['redis-server', '--version'],
      [`${POSTGRES}/postgres`, '--version'],
      ['influxd', 'version'],
      // It does not say its version itself.
      ['dpkg-query', '-W', 'victoria-metrics'],
    ].map(([command = '', ...flags]) => run(command, flags, 5000).catch((error: Error) => error.message)),
  )
  const numbers = programs.flatMap(
    (text) =>
      /(wrk|fio|Redis|PostgreSQL|InfluxDB|victoria-metrics)\D*(\d+\.[\d.]+)/i.exec(text)?.slice(1, 3).join(' ') ?? [],
  )
  return [`Linux ${release()}`, `Node ${process.version}`, ...peers, ...numbers].join(', ')
}
