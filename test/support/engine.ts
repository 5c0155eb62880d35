import { cpSync } from 'node:fs'
import { pino } from 'pino'
import { FileEngine } from '../../src/engine/file-engine.ts'
import type { Files } from '../../src/files/files.ts'
import type { Schedule } from '../../src/runtime/turns.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { SettingValues } from '../../src/settings/values.ts'
import { turnsUntil } from './deadline.ts'
import { type Directory, directoryUntilExit } from './directory.ts'

export const DATA_FILE = '/data/db.json'
export const JOURNAL = '/data/db.journal'

export const SETTINGS: Omit<Settings, 'store'> = {
  file: DATA_FILE,
  isSample: false,
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
  contentSecurityPolicy: '',
  basePath: '',
  hosts: [],
  keepAliveSeconds: 65,
  staticFiles: undefined,
  collections: {},
  limits: {
    bodyBytes: 1024 * 1024,
    itemValues: 20_000,
    batchBytes: 10 * 1024 * 1024,
    batchItems: 10_000,
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
  compactAt: undefined,
  remote: undefined,
  simulation: {
    delay: { enabled: false, methods: [], minMs: 0, maxMs: 0 },
    error: { enabled: false, methods: [], probability: 0 },
    seed: 1,
  },
  log: { level: 'silent', format: 'json', slowMs: 0 },
  values: new SettingValues(new Map()),
  nonDefaults: {},
  warnings: [],
}

export interface OpenedEngine {
  readonly engine: FileEngine
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
  elapsedMs: () => number = () => performance.now(),
): Promise<OpenedEngine> {
  const failures: unknown[] = []
  let ids = 0
  const temporary = settings.store === undefined ? directoryUntilExit() : undefined
  let isStopped = false
  files.stopped?.then(() => {
    isStopped = true
    return temporary?.remove()
  })
  let isOpening = true
  const failed = (error: unknown): void => void failures.push(error)
  const open = FileEngine.open(
    { ...SETTINGS, store: temporary?.path ?? '', ...settings },
    {
      files,
      now,
      newId: () => `00000000-0000-4000-8000-${String(++ids).padStart(12, '0')}`,
      schedule: (work, ms) => (ms > laterMs || (isOpening && ms === laterMs) ? later : schedule)(work, ms),
      elapsedMs,
      log: pino({ level: 'silent' }),
      sampleFile: '/nowhere',
      failed,
    },
  ).then(async (opened) => {
    await opened.start(failed)
    return opened
  })
  const engine = await open.finally(() => {
    isOpening = false
  })
  await turnsUntil('the build of the store', () => !engine.building() || failures.length > 0 || isStopped)
  const close = engine.close.bind(engine)
  engine.close = async () => {
    try {
      await close()
    } finally {
      await temporary?.remove()
    }
  }
  return { engine, failures }
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
