import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { type Bench, installed } from './bench.ts'

/** Three nats-servers of this machine that keep a stream together; undefined where there is no nats-server. */
export async function startNats({ servers, fixtures }: Bench): Promise<readonly string[] | undefined> {
  const command = installed('/usr/sbin/nats-server', '/usr/local/bin/nats-server')
  if (command === undefined) return undefined
  const directory = await fixtures.directory()
  const ports = await freePorts(6)
  const routes = ports.slice(3).map((port) => `nats-route://127.0.0.1:${port}`)
  return Promise.all(
    ports.slice(0, 3).map(async (port, index) => {
      const own = join(directory, `nats-${index}`)
      await mkdir(own)
      const lines = [
        `server_name: n${index}`,
        `listen: "127.0.0.1:${port}"`,
        `jetstream { store_dir: "${own}", max_file_store: 8G }`,
        `cluster { name: bench, listen: "127.0.0.1:${ports[3 + index]}", no_advertise: true, routes: [${routes.join(', ')}] }`,
      ]
      await writeFile(`${own}.conf`, `${lines.join('\n')}\n`)
      const url = `nats://127.0.0.1:${port}`
      await servers.start({ command, args: ['-c', `${own}.conf`], ready: /Server is ready/, url })
      return url
    }),
  )
}

async function freePorts(count: number): Promise<readonly number[]> {
  const taken = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(taken.map((server) => once(server, 'listening')))
  const ports = taken.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(taken.map((server) => once(server.close(), 'close')))
  return ports
}
