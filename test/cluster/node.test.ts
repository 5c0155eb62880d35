import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClusterJournal } from '../../src/cluster/cluster-journal.ts'
import { Election } from '../../src/cluster/election.ts'
import { Node } from '../../src/cluster/node.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { openClusterJournal, SILENT } from '../support/cluster.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { SimulatedStream } from './simulated-stream.ts'

test('the lease is renewed while a new leader catches up and the stream does not say where it ends', async (t) => {
  const stream = new SimulatedStream()
  const { journal } = await openClusterJournal(stream, nodeFiles, await temporaryDirectory(t))
  t.after(() => journal.close())
  let revision = 0
  const election = new Election({
    node: 'node',
    elapsedMs: () => performance.now(),
    register: { get: async () => undefined, put: async () => ++revision },
  })
  let takenIn = (): void => {}
  let isTakingIn = false
  const node = new Node({
    id: 'node',
    urls: [],
    journal,
    stream,
    election,
    messenger: { onAnnouncement: () => {}, announce: () => {} },
    elapsedMs: () => performance.now(),
    canLead: () => true,
    log: SILENT,
    elected: () => {
      isTakingIn = true
      return new Promise((resolve) => {
        takenIn = resolve
      })
    },
    resigning: () => {},
    resigned: async () => {},
    failed: (error) => assert.fail(String(error)),
  })
  let isStarted = false
  const starting = node.start().then(() => {
    isStarted = true
  })
  await until('it takes in what there is', () => isTakingIn)
  let says = (_: number): void => {}
  stream.last = () =>
    new Promise((resolve) => {
      says = resolve
    })
  const before = revision
  await until('the lease was renewed three times', () => revision >= before + 3)
  assert.ok(node.isLeader && !isStarted)
  takenIn()
  await within('the start of the node', starting)
  says(journal.sequence)
  await node.close()
})

interface Lease {
  readonly node: string
  readonly released?: true
}

interface Leadership {
  readonly node: Node
  readonly election: Election
  /** Sets the lease in the register. This node may take a released one. */
  readonly lease: (other: Lease) => void
  readonly calls: string[]
  /** Takeovers in progress, which the test lets succeed or fail. */
  readonly takeovers: { readonly succeed: () => void; readonly fail: () => void }[]
}

/** A node whose lease, takeovers and data file the test controls. */
function controlledNode(elected: (calls: string[]) => Promise<void>): Leadership {
  let revision = 0
  const calls: string[] = []
  const takeovers: Leadership['takeovers'] = []
  let other: Lease | undefined
  const election = new Election({
    node: 'node',
    elapsedMs: () => performance.now(),
    register: {
      get: async () => other && { text: JSON.stringify(other), revision: ++revision },
      put: async () => (other && !other.released ? undefined : ++revision),
    },
  })
  const node = new Node({
    id: 'node',
    urls: [],
    journal: {
      head: 0,
      sequence: 1,
      writable: true,
      resign: () => {},
      lead: () =>
        new Promise<void>((resolve, reject) => {
          takeovers.push({ succeed: resolve, fail: () => reject(new Error('no response')) })
        }),
    } as unknown as ClusterJournal,
    stream: new SimulatedStream(),
    election,
    messenger: { onAnnouncement: () => {}, announce: () => {} },
    elapsedMs: () => performance.now(),
    canLead: () => true,
    log: SILENT,
    elected: () => elected(calls),
    resigning: () => void calls.push('resigning'),
    resigned: async () => void calls.push('resigned'),
    failed: () => {},
  })
  const lease = (now: Lease): void => {
    other = now
  }
  return { node, election, calls, takeovers, lease }
}

test('a node that loses the lead while it imports its data file is told at once, and not only after the import', async () => {
  let imported = (): void => {}
  const { node, calls, takeovers, lease } = controlledNode((calls) => {
    calls.push('elected')
    return new Promise((resolve) => {
      imported = resolve
    })
  })
  const starting = node.start()
  await until('it takes over', () => takeovers.length === 1)
  takeovers[0]?.succeed()
  await until('it imports', () => calls.length === 1)
  lease({ node: 'other' })
  await until('it hears of the other leader', () => calls.length === 2)
  assert.deepEqual(calls, ['elected', 'resigning'])
  imported()
  await within('the start of the node', starting)
  assert.deepEqual(calls, ['elected', 'resigning', 'resigned'])
  await node.close()
})

test('a takeover that fails after the node was elected again does not end the later leadership', async () => {
  const elected = async (calls: string[]): Promise<void> => void calls.push('elected')
  const { node, election, calls, takeovers, lease } = controlledNode(elected)
  const starting = node.start()
  await until('it takes over', () => takeovers.length === 1)
  lease({ node: 'other' })
  await until('another node leads', () => node.leader === 'other')
  lease({ node: 'other', released: true })
  await until('it is elected again', () => election.isHeld)
  takeovers[0]?.fail()
  await until('it takes over again', () => takeovers.length === 2)
  takeovers[1]?.succeed()
  await until('it leads', () => calls.includes('elected'))
  assert.ok(node.isLeader)
  await within('the start of the node', starting)
  await node.close()
  assert.deepEqual(calls, ['resigning', 'resigned', 'elected', 'resigning', 'resigned'])
})
