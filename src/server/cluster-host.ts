import { randomBytes } from 'node:crypto'
import { Bucket } from '../cluster/bucket.ts'
import { ClusterHandler } from '../cluster/cluster-handler.ts'
import { ClusterJournal } from '../cluster/cluster-journal.ts'
import { connect } from '../cluster/connection.ts'
import { durabilityWarnings, factsOf } from '../cluster/durability.ts'
import { Election } from '../cluster/election.ts'
import { ClusterFigures } from '../cluster/figures.ts'
import { JetStream } from '../cluster/jetstream.ts'
import { Messenger } from '../cluster/messenger.ts'
import { Node } from '../cluster/node.ts'
import { RecentWrites } from '../cluster/recent-writes.ts'
import { retrying } from '../cluster/retry.ts'
import { tokensIn } from '../cluster/secrets.ts'
import { checkEdited } from '../commands/edited-items.ts'
import { lockDirectory } from '../events/directory.ts'
import { checkIdField } from '../projections/id-field.ts'
import { Ended } from '../runtime/errors.ts'
import type { ClusterSettings, Settings } from '../settings/settings.ts'
import { textOf } from '../settings/urls.ts'
import { ClusterDataFile, dataFileIdOf } from './cluster-data-file.ts'
import type { EngineDependencies } from './dependencies.ts'
import { DurableProjections } from './durable-projections.ts'
import { compressing, type JournalHost, rulesOf } from './engine.ts'

const SECRET_BYTES = 32
/** How long a start waits on a full disk before it serves what needs no space. */
const PATIENCE_MS = 5000

/** The engine's host on a cluster node, whose journal is in a stream. */
export async function openClusterHost(
  settings: Settings,
  cluster: ClusterSettings,
  dependencies: EngineDependencies,
): Promise<JournalHost> {
  const { files, now, newId, elapsedMs, log, failed } = dependencies
  const id = newId()
  const rules = await rulesOf(settings)
  const figures = new ClusterFigures()
  const nc = await retrying(log, () => connect(cluster, `recollect ${id}`, files))
  const ends: (() => Promise<unknown>)[] = [() => nc.close()]
  const end = async (): Promise<void> => {
    for (const one of ends.reverse()) await one()
  }
  try {
    const stream = await retrying(log, () => JetStream.open(nc, cluster.stream, cluster.replicas, log))
    const warnings = durabilityWarnings(await factsOf(nc, stream.replicas, stream.messageBytes))
    const bucket = await retrying(log, () => Bucket.open(nc, cluster.stream, cluster.replicas))
    const messenger = new Messenger(nc, cluster.stream, stream.messageBytes, log, figures)
    const lock = await lockDirectory(files, settings.journal)
    ends.push(() => lock.release())
    const dataFileId = await dataFileIdOf(files, settings.journal)
    const projections = await DurableProjections.open({ settings, dependencies, dataFileId })
    ends.push(() => projections.close())
    const { views, opening } = projections
    const hasRoom = (): boolean => opening.hasRoom(1, 0)
    let isEnding = false
    const dataFile = await ClusterDataFile.prepare({
      settings,
      dependencies,
      projections,
      check: (file) => checkEdited(file, rules),
      merge: (edit, origin) => handler.merge(edit, origin),
      past: () => past,
    })
    const journal = await ClusterJournal.open({
      stream,
      files,
      directory: settings.journal,
      segmentBytes: settings.segmentBytes,
      ...compressing(settings, dependencies),
      node: id,
      now,
      newId,
      figures,
      lock,
      ...opening,
      lost: () => node.lost(),
      failed: (error) => {
        if (!isEnding) failed(error)
      },
    })
    ends.push(() => journal.close())
    if (journal.replica.cut)
      log.warn(journal.replica.cut, 'a crash left the end of the copy torn; it was cut off and kept')
    const handler = projections.decide(journal, rules, now)
    const recent = new RecentWrites(journal)
    projections.follow(journal, handler, dataFile, recent)
    const election = new Election({ register: bucket.register('decider'), node: id, elapsedMs })
    const node: Node = new Node({
      id,
      urls: settings.urls.map(textOf),
      journal,
      stream,
      election,
      messenger,
      elapsedMs,
      canDecide: hasRoom,
      log,
      elected: () => dataFile.open(journal),
      resigned: () => dataFile.close(),
      failed,
    })
    const clusterHandler = new ClusterHandler({
      idField: rules.idField,
      local: handler,
      reload: () => dataFile.reload(),
      snapshot: () => dataFile.snapshot(),
      node,
      messenger,
      recent,
      journal,
      position: () => views.position,
      find: (name, key) => views.find(name)?.item(key),
      hasRoom,
    })
    const past = projections.past(journal)
    ends.push(async () => messenger.close())
    ends.push(() => node.close())
    return {
      journal,
      projections,
      past,
      get queries() {
        return projections.queries
      },
      handler: clusterHandler,
      figures: [{ kind: 'cluster', figures }],
      readOnly: undefined,
      now,
      tokens: tokensIn(bucket, () => randomBytes(SECRET_BYTES).toString('base64url'), now),
      warnings,
      verify: (rest) => journal.replica.verify(rest),
      reload: () => clusterHandler.reload(),
      snapshot: () => clusterHandler.snapshot(),
      async start() {
        try {
          await projections.catchUp(journal)
          checkIdField(views, rules.idField)
          await projections.buildNaturalKeys()
          projections.begin()
          await journal.begin()
          await journal.caughtUp()
          messenger.serve(id, (question) => clusterHandler.answer(question))
          await node.start()
        } catch (error) {
          throw isEnding ? new Ended() : error
        }
      },
      patience: (starting) => startedOrFull(starting, hasRoom),
      healthOf(isStarted) {
        const { leader, isLeader, hasLeader, lag, peers } = node
        const { isConnected } = messenger
        const isKept = !['edited', 'invalid', 'failing'].includes(dataFile.status?.state ?? 'current')
        const writable = isStarted && isConnected && hasLeader
        return {
          status: !writable ? 'unavailable' : isKept && projections.status.state === 'current' ? 'ok' : 'degraded',
          journal: { id: journal.id, writable, ...(journal.replica.cut && { cut: journal.replica.cut }) },
          cluster: {
            role: isLeader ? 'leader' : 'follower',
            node: id,
            ...(leader !== undefined && { leader }),
            isConnected,
            lag,
            peers,
          },
          ...(dataFile.status && { dataFile: dataFile.status }),
          store: projections.status,
        }
      },
      close() {
        isEnding = true
        projections.end()
        return end()
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** Resolves when the node has started, or waits for space on the disk. */
async function startedOrFull(starting: Promise<void>, hasRoom: () => boolean): Promise<void> {
  let looking: NodeJS.Timeout | undefined
  const full = new Promise<void>((resolve) => {
    looking = setInterval(() => {
      if (!hasRoom()) resolve()
    }, PATIENCE_MS)
  })
  try {
    await Promise.race([starting, full])
  } finally {
    clearInterval(looking)
  }
}
