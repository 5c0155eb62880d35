import type { ImportOutcome } from '../commands/handler.ts'
import { ItemSchemas } from '../commands/item-schemas.ts'
import type { Rules } from '../commands/rules.ts'
import { CloseStack } from '../engine/close-stack.ts'
import { connectionOf } from '../engine/data-file.ts'
import type { EngineDependencies } from '../engine/dependencies.ts'
import { Engine, type EngineHealth } from '../engine/engine.ts'
import type { JournalCheck } from '../engine/journal-check.ts'
import type { Metric } from '../engine/metric.ts'
import { DurableProjections } from '../engine/projections.ts'
import type { Retention } from '../engine/retention.ts'
import { rulesOf } from '../engine/rules.ts'
import type { TokenStorage } from '../engine/token-storage.ts'
import { type Damage, JournalDamage } from '../events/damage.ts'
import { lockDirectory } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { repairJournal } from '../events/repair.ts'
import { directoryOf } from '../files/files.ts'
import type { Past } from '../projections/past.ts'
import type { Queries } from '../query/queries.ts'
import type { Settings } from '../settings/settings.ts'
import { urlOf } from '../settings/urls.ts'
import { tokensInBucket } from './bucket.ts'
import { ClusterDataFile, dataFileIdOf } from './cluster-data-file.ts'
import { ClusterHandler } from './cluster-handler.ts'
import { ClusterJournal } from './cluster-journal.ts'
import { type ClusterConnection, openConnection } from './connection.ts'
import { Election } from './election.ts'
import { type ClusterHealth, metricsOf } from './figures.ts'
import { unlessFull } from './leader-writes.ts'
import { decodeBeginning } from './message.ts'
import { Node } from './node.ts'
import type { RecordStream } from './record-stream.ts'
import type { ClusterSettings } from './settings.ts'
import { streamSource } from './stream-source.ts'

/** Nodes of other versions know the lease by this key. */
const LEASE_KEY = 'decider'
/** How often a start checks whether it waits for space on the disk. */
const CHECK_MS = 5000

interface ClusterEngineParts {
  readonly id: string
  readonly settings: Settings
  readonly dependencies: EngineDependencies
  readonly rules: Rules
  readonly schemas: ItemSchemas
  readonly connection: ClusterConnection
  readonly projections: DurableProjections
  readonly dataFile: ClusterDataFile
  readonly journal: ClusterJournal
  readonly opened: CloseStack
}

/** A cluster node: the journal is in a stream, of which the node has a copy. */
export class ClusterEngine extends Engine {
  readonly journal: ClusterJournal
  readonly projections: DurableProjections
  readonly past: Past
  readonly handler: ClusterHandler
  readonly tokens: TokenStorage
  readonly retention: Retention
  readonly schemas: ItemSchemas
  readonly metrics: readonly Metric[]
  override readonly mayLag = true
  override readonly warnings: readonly string[]
  readonly #parts: ClusterEngineParts
  readonly #node: Node
  readonly #check: JournalCheck

  private constructor(parts: ClusterEngineParts) {
    super()
    const { id, settings, dependencies, rules, connection, projections, dataFile, journal, opened } = parts
    const { now, elapsedMs, log, failed } = dependencies
    const { stream, bucket, messenger, figures, warnings } = connection
    this.#parts = parts
    this.journal = journal
    this.projections = projections
    this.past = projections.past(journal, dependencies.memory, settings.limits.pastItems)
    this.schemas = parts.schemas
    this.tokens = tokensInBucket(bucket, now)
    this.#check = projections.check(journal.replica, streamSource(stream, journal.id))
    this.metrics = [...metricsOf(figures, () => this.health().cluster), ...this.#check.metrics]
    this.warnings = warnings
    const local = projections.createHandler(journal, rules, now)
    const requestId = (): string => projections.mergedEdits.dataFileId as string
    const node = new Node({
      id,
      urls: settings.urls.map(urlOf),
      journal,
      stream,
      election: new Election({ register: bucket.register(LEASE_KEY), node: id, elapsedMs }),
      messenger,
      elapsedMs,
      canLead: () => projections.hasRoom,
      log,
      elected: () => dataFile.open(connectionOf({ journal, past: this.past, handler: local, rules, requestId })),
      resigning: () => dataFile.end(),
      resigned: () => dataFile.close(),
      failed,
    })
    this.#node = node
    this.handler = new ClusterHandler({
      idField: rules.idField,
      local,
      reload: () => dataFile.reload(),
      snapshot: () => dataFile.snapshot(),
      node,
      messenger,
      journal,
      position: () => this.views.position,
      find: (name, key) => this.views.find(name)?.item(key),
      hasRoom: () => projections.hasRoom,
    })
    this.retention = projections.retention(this.handler, () => node.isLeader)
    projections.follow(journal, { handler: this.handler, dataFile, retention: this.retention })
    opened.add(async () => messenger.close())
    opened.add(() => node.close())
  }

  static async open(settings: Settings, cluster: ClusterSettings, dependencies: EngineDependencies) {
    const { files, newId, log, failed } = dependencies
    const id = newId()
    const schemas = await ItemSchemas.open(settings.api.schemas)
    const rules = rulesOf(settings, schemas, dependencies)
    const opened = new CloseStack()
    try {
      const connection = await openConnection(cluster, id, files, log)
      opened.add(() => connection.close())
      const lock = await lockDirectory(files, settings.journal)
      opened.add(() => lock.release())
      const dataFileId = await dataFileIdOf(files, settings.journal)
      const { stream } = connection
      const projections = await repairing({ settings, dependencies, stream }, () =>
        DurableProjections.open({ settings, keyFields: rules.keyFields, dependencies, dataFileId }),
      )
      opened.add(() => projections.close())
      await files.makeDirectory(directoryOf(await files.follow(settings.file)))
      const dataFile = new ClusterDataFile({ settings, dependencies, projections })
      const journal = await repairing({ settings, dependencies, stream }, () =>
        ClusterJournal.open({
          ...projections.opening,
          lock,
          stream,
          node: id,
          figures: connection.figures,
          lost: () => engine.#node.lost(),
          failed: (error) => {
            if (!engine.isClosing) failed(error)
          },
        }),
      )
      opened.add(() => journal.close())
      const { cut } = journal.replica
      if (cut) log.warn(cut, 'a crash left the end of the copy torn; it was cut off and kept')
      const parts = { id, settings, dependencies, rules, schemas, connection, projections, dataFile, journal, opened }
      const engine: ClusterEngine = new ClusterEngine(parts)
      return engine
    } catch (error) {
      await opened.close().catch(() => {})
      throw error
    }
  }

  get queries(): Queries {
    return this.projections.queries
  }

  now(): Date {
    return this.#parts.dependencies.now()
  }

  verify(rest: (checked: Position) => Promise<void>): Promise<readonly Damage[]> {
    return this.journal.replica.verify(rest)
  }

  reload(): Promise<ImportOutcome> {
    return this.handler.reload()
  }

  snapshot(): Promise<Position> {
    return this.handler.snapshot()
  }

  health(): EngineHealth & { readonly cluster: ClusterHealth } {
    const { id: node, dataFile, connection } = this.#parts
    const { journal, projections } = this
    const { id, replica } = journal
    const { cut } = replica
    const { leader, isLeader, hasLeader, lag, peers } = this.#node
    const { isConnected } = connection.messenger
    const isFileCurrent = !['edited', 'invalid', 'failing'].includes(dataFile.status?.state ?? 'current')
    const damage = this.#check.status()
    const retention = this.retention.status
    const isExpiring = retention.every(({ state }) => state !== 'stopped')
    const isComplete = isFileCurrent && !damage && isExpiring && projections.status.state === 'current'
    const writable = this.isStarted && isConnected && hasLeader && projections.hasRoom
    return {
      status: !writable ? 'unavailable' : isComplete ? 'ok' : 'degraded',
      journal: { id, writable, ...(cut && { cut }), ...(damage && { damage }) },
      cluster: {
        role: isLeader ? 'leader' : 'follower',
        node,
        ...(leader !== undefined && { leader }),
        isConnected,
        lag,
        peers,
      },
      ...(dataFile.status && { dataFile: dataFile.status }),
      store: projections.status,
      ...(retention.length > 0 && { retention }),
    }
  }

  protected async begin(): Promise<void> {
    const { id, rules, connection } = this.#parts
    const { journal, projections } = this
    await projections.catchUp(journal, rules.idField)
    projections.begin()
    await journal.begin()
    await journal.caughtUp()
    connection.messenger.serve(id, (request) => this.handler.answer(request))
    await this.#node.start()
    void this.retention.begin()
  }

  /** Until the node has started, or waits for space on the disk: then it serves what needs no space. */
  protected untilServable(starting: Promise<void>): Promise<void> {
    return unlessFull(starting, () => this.projections.hasRoom, CHECK_MS)
  }

  protected async end(): Promise<void> {
    this.projections.end()
    await this.retention.end()
    await this.#parts.opened.close()
  }
}

interface RepairContext {
  readonly settings: Settings
  readonly dependencies: EngineDependencies
  readonly stream: RecordStream
}

/** Opens what needs the whole copy of the journal; repairs a damaged copy from the stream first. */
async function repairing<Opened>(
  { settings, dependencies, stream }: RepairContext,
  open: () => Promise<Opened>,
): Promise<Opened> {
  try {
    return await open()
  } catch (error) {
    const beginning = error instanceof JournalDamage ? await stream.find(1) : undefined
    if (!beginning) throw error
    const source = streamSource(stream, decodeBeginning(beginning))
    const { problems } = await repairJournal(dependencies.files, settings.journal, { source, progress: () => {} })
    if (problems.length > 0) throw error
    dependencies.log.warn({ err: error, source: source.name }, 'the journal was damaged and is repaired')
    return open()
  }
}
