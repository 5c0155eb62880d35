import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { pino } from 'pino'
import { ClusterDataFile } from '../../src/cluster/cluster-data-file.ts'
import type { ClusterJournal } from '../../src/cluster/cluster-journal.ts'
import { durabilityWarnings, type ServerFacts } from '../../src/cluster/durability.ts'
import { Election } from '../../src/cluster/election.ts'
import { Node } from '../../src/cluster/node.ts'
import { Projections } from '../../src/engine/projections.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { FOR_A_REQUEST, Views } from '../../src/projections/views.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { openClusterJournal, SILENT } from '../support/cluster.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, diskWith, JOURNAL, SETTINGS } from '../support/engine.ts'
import { memoryJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
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

const DOOR = 'the file of this node'

const now = (): Date => new Date('2026-11-20T12:00:00.000Z')

function prepared(files: Files) {
  const projections = new Projections(Views.temporary(), DOOR)
  const dataFile = new ClusterDataFile({
    settings: { ...SETTINGS, store: '' },
    dependencies: {
      files,
      now,
      newId: () => 'id',
      schedule: (work) => {
        const timer = setImmediate(work)
        return { cancel: () => clearImmediate(timer) }
      },
      elapsedMs: () => performance.now(),
      log: pino({ level: 'silent' }),
      memory: new MemoryBudget(),
      sampleFile: '/nowhere',
      failed: (error) => assert.fail(String(error)),
    },
    projections,
  })
  return { projections, dataFile }
}

test('an edit that was merged before a crash is not merged again by a node with a new store', async (t) => {
  const disk = new SimulatedDisk()
  const edited = JSON.stringify({ a: [{ id: 1, n: 2 }] })
  disk.put(DATA_FILE, Buffer.from(edited))
  disk.put(`${JOURNAL}/data-file.id`, Buffer.from(DOOR))
  const confirmed = { position: 1, hash: 'of what the file was before the edit' }
  disk.put('/data/.recollect/db.json.state', Buffer.from(JSON.stringify({ journal: 'journal', confirmed, shown: [] })))

  const journal = memoryJournal('journal', now)
  const item = (n: number) => Document.of({ id: 1, n })
  const writes: readonly (readonly [actor: string, event: DomainEvent])[] = [
    ['client', { type: 'CollectionCreated', collection: 'a' }],
    ['data-file', { type: 'ItemCreated', collection: 'a', id: 1, revision: 1, prior: 0, item: item(2) }],
    ['client', { type: 'ItemReplaced', collection: 'a', id: 1, revision: 2, prior: 2, item: item(3) }],
  ]
  for (const [index, [actor, event]] of writes.entries()) {
    const key = createHash('sha256').update(edited).digest('hex')
    const origin = actor === 'data-file' ? { actor, requestId: DOOR, key } : { actor, requestId: 'r' }
    await journal.append({ expected: index + 1, ...origin, events: [event] })
  }

  const { projections, dataFile } = prepared(disk.files())
  await projections.views.build(journal.read(1), FOR_A_REQUEST)
  await dataFile.open({
    journal,
    past: { names: () => assert.fail('nothing is asked of the past'), collection: () => assert.fail() },
    check: () => assert.fail('it was read again'),
    merge: () => assert.fail('it was merged again'),
  })
  t.after(() => dataFile.close())
  await until('the data file to show the later write', () => String(disk.bytes(DATA_FILE)).includes('"n": 3'))
  assert.equal(dataFile.status?.state, 'current')
})

test('the import of a node that leads no longer is aborted, and continued when the node leads again', async (t) => {
  const disk = diskWith({ a: [{ id: 1 }] })
  let isResigning = true
  const files = disk.files((operation, path) => {
    if (isResigning && operation === 'read' && path === DATA_FILE) dataFile.end()
    return undefined
  })
  const { dataFile } = prepared(files)
  let merges = 0
  const connection = {
    journal: memoryJournal('journal', now),
    past: { names: async () => [], collection: () => assert.fail('there is no past') },
    check: () => {},
    merge: async () => {
      merges++
      return { basis: 0, edited: 0, events: 0, conflicts: [] }
    },
  }
  await dataFile.open(connection)
  assert.deepEqual([merges, dataFile.status], [0, undefined])
  await dataFile.close()
  isResigning = false
  await dataFile.open(connection)
  t.after(() => dataFile.close())
  assert.equal(merges, 1)
})

const SOUND: ServerFacts = { version: '2.12.3', replicas: 3, syncsAlways: true, messageBytes: 1024 * 1024 - 1024 }

test('three recent NATS servers that sync every write cause no warning', () => {
  assert.deepEqual(durabilityWarnings(SOUND), [])
  assert.deepEqual(durabilityWarnings({ ...SOUND, version: '2.10.23' }), [])
})

test('an old version, too few replicas, lazy syncs and small messages are warned about', () => {
  const warned = (facts: Partial<ServerFacts>) => durabilityWarnings({ ...SOUND, ...facts })
  for (const version of ['2.9.10', '2.10.22', '1.4.0']) {
    assert.match(warned({ version }).join(), /known to forget a whole stream/)
  }
  assert.match(warned({ replicas: 1 }).join(), /one copy/)
  assert.match(warned({ syncsAlways: false }).join(), /do not sync each write.*of most servers.*sync_interval: always/s)
  assert.match(warned({ syncsAlways: undefined }).join(), /not known whether/)
  assert.match(warned({ syncsAlways: undefined, version: '2.9.10' }).join(), /cannot sync each write/)
  assert.match(warned({ messageBytes: 64 * 1024 - 1024 }).join(), /at most 65536 bytes/)
})
