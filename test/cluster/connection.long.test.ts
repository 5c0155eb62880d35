import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { encodeAccount, encodeOperator, encodeUser, fmtCreds } from '@nats-io/jwt'
import { createAccount, createOperator, createUser, type KeyPair } from '@nats-io/nkeys'
import { connect } from '../../src/cluster/connection.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { startCluster } from '../support/cluster.ts'
import { DEADLINE_MS } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type NatsServer, startNats, withoutNats } from '../support/nats.ts'
import { json, type RunningProgram } from '../support/server.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const OPENSSL = process.env.OPENSSL ?? '/usr/bin/openssl'
const withoutOpenssl = existsSync(OPENSSL) ? false : 'openssl is missing (apt-get install openssl)'

/** A write at one node, read at another. */
async function works([first, second]: readonly RunningProgram[]): Promise<void> {
  const created = await first?.fetch('/api/things', json('POST', { n: 1 }))
  assert.equal(created?.status, 201)
  const position = created?.headers.get('journal-position') as string
  const read = await second?.fetch('/api/things/1', { headers: { 'Wait-For-Position': position } })
  assert.deepEqual(await read?.json(), { id: 1, n: 1 })
}

/** A key and a certificate for names, signed by `signer` or by itself; the paths of both are `<path>.key` and `.pem`. */
function certify(path: string, subject: string, { signer, names }: { signer?: string; names?: string } = {}): void {
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  args.push('-subj', `/CN=${subject}`, '-keyout', `${path}.key`, '-out', `${path}.pem`)
  if (signer !== undefined) args.push('-CA', `${signer}.pem`, '-CAkey', `${signer}.key`)
  if (names !== undefined) args.push('-addext', `subjectAltName=${names}`, '-addext', 'basicConstraints=CA:FALSE')
  execFileSync(OPENSSL, args, { stdio: 'pipe', timeout: DEADLINE_MS })
}

function tls(directory: string, certificate: string): readonly string[] {
  const path = join(directory, certificate)
  return [`tls { cert_file: "${path}.pem", key_file: "${path}.key" }`]
}

const portOf = ([server]: readonly NatsServer[]): number => server?.port as number

/** The outcome of a connection from a process that knows an authority. */
function connecting(url: string, authority: string): string {
  const text = `import { nodeFiles } from './src/files/node-files.ts'
    import { connect } from './src/cluster/connection.ts'
    const settings = { servers: ['${url}'], credentials: undefined }
    const said = await connect(settings, 'probe', nodeFiles).then(() => 'connected', ({ message }) => message)
    process.stdout.write(said, () => process.exit(0))`
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: authority, NODE_TEST_CONTEXT: '' }
  const args = ['--import', 'tsx', '--input-type=module', '-e', text]
  return execFileSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8', timeout: DEADLINE_MS })
}

test('a cluster works over TLS with servers named by address or name, and rejects other certificates', {
  skip: withoutNats || withoutOpenssl,
}, async (t) => {
  const directory = await temporaryDirectory(t)
  const signer = join(directory, 'ca')
  certify(signer, 'authority')
  certify(join(directory, 'right'), 'n1', { signer, names: 'IP:127.0.0.1,DNS:localhost' })
  certify(join(directory, 'other'), 'n2', { signer, names: 'DNS:other' })
  const nats = await startNats(t, { config: tls(directory, 'right') })
  const other = await startNats(t, { config: tls(directory, 'other') })
  const plain = await startNats(t)
  const urls = (node: number) => [`tls://${node === 0 ? '127.0.0.1' : 'localhost'}:${portOf(nats)}`]
  const env = { NODE_EXTRA_CA_CERTS: `${signer}.pem` }
  const { nodes } = await startCluster(t, { nats, urls, nodes: 2, data: { things: [{ id: 0 }] }, env })
  await works(nodes)
  assert.match(connecting(`tls://127.0.0.1:${portOf(other)}`, `${signer}.pem`), /does not match certificate/)
  // This process does not know the authority.
  const asStranger = (servers: readonly NatsServer[]) =>
    connect({ servers: [`tls://127.0.0.1:${portOf(servers)}`], credentials: undefined }, 'stranger', nodeFiles)
  await assert.rejects(asStranger(nats), /certificate/)
  await assert.rejects(asStranger(plain), /tls/)
})

/** The settings of servers that believe an operator, and the credentials of a user who may do what a node needs. */
async function accounts(t: TestContext, stream: string) {
  const [operator, system, account, user] = [createOperator(), createAccount(), createAccount(), createUser()]
  const text = (key: KeyPair): string => key.getPublicKey()
  const counts = { subs: -1, conn: -1, leaf: -1, imports: -1, exports: -1, data: -1, payload: -1, wildcards: true }
  const unbounded = { ...counts, disk_storage: -1, mem_storage: -1, streams: -1, consumer: -1 }
  const jwts = {
    operator: await encodeOperator('operator', operator, { system_account: text(system) }),
    system: await encodeAccount('SYS', system, {}, { signer: operator }),
    account: await encodeAccount('recollect', account, { limits: unbounded }, { signer: operator }),
  }
  const own = [`recollect.${stream}.>`, `$KV.${stream}-cluster.>`, '_INBOX.>']
  const rights = { pub: { allow: [...own, '$JS.API.>'] }, sub: { allow: own } }
  const config = [
    `operator: "${jwts.operator}"`,
    `system_account: ${text(system)}`,
    'resolver: MEMORY',
    `resolver_preload: { ${text(system)}: "${jwts.system}", ${text(account)}: "${jwts.account}" }`,
  ]
  const credentials = join(await temporaryDirectory(t), 'node.creds')
  const creds = fmtCreds(await encodeUser('node', user, account, rights), user)
  await writeFile(credentials, creds, { mode: 0o600 })
  return { config, credentials }
}

test('a cluster works with a credentials file that has exactly the permissions listed in docs/cluster.md', {
  skip: withoutNats,
}, async (t) => {
  const { config, credentials } = await accounts(t, 'rights')
  const nats = await startNats(t, { config })
  const flags = ['--Journal.Credentials', credentials]
  const { nodes } = await startCluster(t, { nats, nodes: 2, stream: 'rights', data: { things: [{ id: 0 }] }, flags })
  await works(nodes)
  for (const node of nodes) assert.doesNotMatch(node.stderr(), /"level":(40|50).*[Pp]ermission/)
  await assert.rejects(
    connect({ servers: [nats[0]?.url as string], credentials: undefined }, 'stranger', nodeFiles),
    /[Aa]uthorization/,
  )
})
