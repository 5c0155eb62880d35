import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Election } from '../../src/cluster/election.ts'
import { Node } from '../../src/cluster/node.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { openClusterJournal, SILENT } from '../support/cluster.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { until } from '../support/until.ts'
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
    messenger: { hear: () => {}, announce: () => {} },
    elapsedMs: () => performance.now(),
    canDecide: () => true,
    log: SILENT,
    elected: () => {
      isTakingIn = true
      return new Promise((resolve) => {
        takenIn = resolve
      })
    },
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
  await starting
  says(journal.sequence)
  await node.close()
})
