import { cpSync } from 'node:fs'
import { pino } from 'pino'
import { Item, keyOf } from '../../src/collections/item.ts'
import { type Base, type BaseItems, Difference } from '../../src/commands/difference.ts'
import type { Edit } from '../../src/commands/edit.ts'
import { FileEngine } from '../../src/engine/file-engine.ts'
import { type ItemId, OBJECT_ID } from '../../src/events/event.ts'
import type { Files } from '../../src/files/files.ts'
import { Document } from '../../src/json/document.ts'
import { isArray, type JsonObject } from '../../src/json/value.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { ENDLESS, type Schedule } from '../../src/runtime/turns.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { SettingValues } from '../../src/settings/values.ts'
import { turnsUntil } from './deadline.ts'
import { type Directory, directoryUntilExit } from './directory.ts'
import { SimulatedDisk } from './simulated-files.ts'

export const DATA_FILE = '/data/db.json'
export const JOURNAL = '/data/db.journal'

export const SETTINGS: Omit<Settings, 'store'> = {
  file: DATA_FILE,
  isSample: false,
  snapshots: undefined,
  journal: JOURNAL,
  acceptJournal: false,
  urls: [],
  common: { eagerDataReload: false },
  dataStore: { idField: 'id' },
  dataFile: { write: 'auto', maxDelaySeconds: undefined },
  edits: { mode: 'merge', bytes: 8 * 1024 * 1024 },
  api: {
    readOnly: false,
    useResultObject: false,
    upsertOnPut: true,
    clientIdsOnPost: false,
    foreignKeySuffix: 'Id',
    reset: false,
    strictQuery: false,
    compatibility: 'none',
    schemas: {},
  },
  authentication: {
    enabled: false,
    schemes: [],
    users: [],
    apiKeys: [],
    token: { secret: undefined, expiresInSeconds: 1 },
  },
  cors: { origins: undefined, credentials: false },
  staticDefault: 'wwwroot',
  http: { contentSecurityPolicy: '', basePath: '', hosts: [], keepAliveSeconds: 65, routes: {}, static: '' },
  collections: {},
  limits: {
    bodyBytes: 1024 * 1024,
    itemValues: 20_000,
    batchBytes: 10 * 1024 * 1024,
    batchItems: 10_000,
    pastItems: 200_000,
    atomicItems: 10_000,
    memoryBytes: 0,
    headerBytes: 16 * 1024,
    headerSeconds: 20,
    requestSeconds: 60,
    stallSeconds: 30,
    queryBytes: 16 * 1024,
    queryParameters: 1000,
    pageSize: 10_000,
    indexBytes: 0,
    scanSeconds: 30,
    patchOperations: 1000,
    streamsPerAddress: 64,
    connections: 0,
    connectionsPerAddress: 512,
    socketsPerAddress: 256,
    subscriptionItems: 10_000,
    subscriptionsPerSocket: 100,
    failuresPerMinute: 20,
    waitSeconds: 5,
    trustedProxies: [],
  },
  segmentBytes: 16 * 1024,
  compressAfter: 'off',
  compactAt: 'off',
  remote: undefined,
  simulation: {
    delay: { enabled: false, methods: [], minMs: 0, maxMs: 0 },
    error: { enabled: false, methods: [], probability: 0 },
    seed: 1,
  },
  log: { level: 'silent', format: 'json', slowMs: 0 },
  values: new SettingValues(new Map()),
  warnings: [],
}

/** A disk with a data file: a value, or the text itself. */
export function diskWith(data: unknown): SimulatedDisk {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(typeof data === 'string' ? data : JSON.stringify(data)))
  return disk
}

export interface OpenedEngine {
  readonly engine: FileEngine
  /** That of the settings. */
  readonly memory: MemoryBudget
  /** The error that ended the service, if there was one. */
  readonly failures: readonly unknown[]
}

/** Work that is scheduled for later than this is not waited for by any test. */
const LATER_MS = 1000

/**
 * The engine on any files: time stands still unless told otherwise, and what is scheduled happens soon. Its store is a
 * new one on the real disk, unless the settings name it.
 */
export async function openTestEngine(
  files: Files & { readonly stopped?: Promise<void> },
  settings: Partial<Settings> = {},
  now: () => Date = () => new Date('2026-11-20T12:00:00.000Z'),
  schedule: Schedule = soon,
  laterMs = LATER_MS,
  elapsedMs: () => number = () => 0,
): Promise<OpenedEngine> {
  const failures: unknown[] = []
  const memory = new MemoryBudget((settings.limits ?? SETTINGS.limits).memoryBytes)
  let ids = 0
  const temporary = settings.store === undefined ? directoryUntilExit() : undefined
  let isStopped = false
  files.stopped?.then(() => {
    isStopped = true
    return temporary?.remove()
  })
  let isOpening = true
  const failed = (error: unknown): void => void failures.push(error)
  // After five seconds a service begins while its engine still starts. To a test, a start that fails then fails as any other.
  const lateFailures: unknown[] = []
  const open = FileEngine.open(
    { ...SETTINGS, store: temporary?.path ?? '', ...settings },
    {
      files,
      now,
      newId: () => `00000000-0000-4000-8000-${String(++ids).padStart(12, '0')}`,
      schedule: (work, ms) => (ms > laterMs || (isOpening && ms === laterMs) ? later : schedule)(work, ms),
      elapsedMs,
      memory,
      log: pino({ level: 'silent' }),
      sampleFile: '/nowhere',
      failed,
    },
  ).then(async (opened) => {
    await opened.start((error) => void lateFailures.push(error))
    return opened
  })
  const engine = await open.finally(() => {
    isOpening = false
  })
  const isOver = (): boolean => !engine.building() || lateFailures.length + failures.length > 0 || isStopped
  await turnsUntil('the build of the store', isOver)
  if (lateFailures.length > 0) {
    await engine.close().catch(() => {})
    throw lateFailures[0]
  }
  const close = engine.close.bind(engine)
  engine.close = async () => {
    try {
      await close()
    } finally {
      await temporary?.remove()
    }
  }
  return { engine, memory, failures }
}

/** A copy of the store as a killed process leaves it, for another start. */
export function storeLeftIn(path: string): Directory {
  const copy = directoryUntilExit()
  cpSync(path, copy.path, { recursive: true, preserveTimestamps: true })
  return copy
}

const soon: Schedule = (work) => {
  const timer = setImmediate(work)
  return { cancel: () => clearImmediate(timer) }
}

const later: Schedule = (work, ms) => {
  const timer = setTimeout(work, ms).unref()
  return { cancel: () => clearTimeout(timer) }
}

const ITEMS = 20

/** Items that make a data file of 1.25 MiB, which is too large to be written whenever it is behind. */
export const LARGE = { a: Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text: 'x'.repeat(64 * 1024) })) }

/** Lists of items and single objects, by name. */
type Objects = Iterable<readonly [string, readonly JsonObject[] | JsonObject]>

/** The edit that a data file with these collections is, when it was edited from others; all items of those have an id. */
export function editOf(file: Objects, from: Objects = []): Promise<Edit> {
  const difference = new Difference({ base: baseOf(from), idField: 'id', kind: 'edit', keeps: 'ids' })
  for (const [name, collection] of file) {
    const compared = difference.collection(name, !isArray(collection))
    for (const { id, object } of withIds(collection)) compared.add(id, JSON.stringify(object))
  }
  return difference.end(ENDLESS)
}

/** A state with these collections. */
export function baseOf(collections: Objects): Base {
  return new Map(Array.from(collections, ([name, items]) => [name, baseItems(items)]))
}

function baseItems(collection: readonly JsonObject[] | JsonObject): BaseItems {
  const items = withIds(collection).map(({ id, object }) => new Item(id as ItemId, Document.of(object), 0, 0))
  const places = new Map(items.map(({ key }, place) => [key, place]))
  return {
    size: items.length,
    places: items.length,
    itemAt: (place) => items[place],
    seek: (place) => Math.min(place, items.length),
    placeOf: (id) => places.get(keyOf(id)),
    item: (key) => items[places.get(key) ?? -1],
  }
}

function withIds(collection: readonly JsonObject[] | JsonObject) {
  const isList = isArray(collection)
  const objects = isList ? (collection as readonly JsonObject[]) : [collection]
  return objects.map((object) => ({ id: isList ? (object.id as ItemId | undefined) : OBJECT_ID, object }))
}
