import type { Scheme } from '../access/access.ts'
import type { ApiKey } from '../access/accounts.ts'
import { DEFAULT_ITEM_VALUES } from '../json/parse.ts'
import type { JsonValue } from '../json/value.ts'
import { type AuthenticationSettings, checkAccounts, checkUnique } from './authentication.ts'
import { checkCollections, withTimesOfLatest } from './collections.ts'
import type { ParsedFlags } from './flags.ts'
import { KeySet } from './key-set.ts'
import { SCHEMAS } from './keys.ts'
import { readRoutes, readSchema, readSources, type SettingsContext } from './sources.ts'
import { addressesOf } from './urls.ts'
import { ACCOUNTS, SettingValues } from './values.ts'

/** The longest time that a request with an item of the default size blocks others. */
const MS_OF_DEFAULT_ITEM = 15

export type Settings = ReturnType<typeof readSettings>

/** All mistakes in the flags, the environment and the configuration file. */
export class BadSettings extends Error {
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    // A flag that stands for several settings makes the same mistake in each.
    const all = [...new Set(mistakes)]
    super(all.join('\n'))
    this.name = 'BadSettings'
    this.mistakes = all
  }
}

export const DEFAULT_FILE = 'data/datastore.json'

/** The default path of a data file's journal. */
export function journalOf(file: string): string {
  return `${file.replace(/\.json$/i, '')}.journal`
}

/**
 * Precedence: flag, environment, configuration file, default. Changes nothing.
 * @throws {BadSettings} with every mistake.
 */
export function readSettings(flags: ParsedFlags, context: SettingsContext, mistakes: string[] = []) {
  const { absolute, remoteJournal } = context
  const keys = new KeySet(remoteJournal.keys)
  const sources = readSources(flags, context, keys, mistakes)
  const values = new SettingValues(sources.values, keys)
  const schemas = readSchemas(values, context, mistakes)
  const isJsonServer = values.get('Api.Compatibility') === 'json-server'
  const urls = addressesOf(flags, isJsonServer, mistakes)
  const authentication = authenticationOf(values)
  checkUnique(authentication, mistakes)
  // Invalid accounts are missing here.
  if (!ACCOUNTS.some((name) => sources.invalid.has(name))) checkAccounts(authentication, mistakes)
  checkCombinations(values, mistakes)
  const routes = readRoutes(values.get('Http.Routes'), context, mistakes)
  const remote = remoteJournal.read((name) => values.valueOf(name), absolute, mistakes)
  if (mistakes.length > 0) throw new BadSettings(mistakes)

  const file = absolute(flags.text('file') ?? DEFAULT_FILE)
  const snapshots = flags.text('snapshots')
  const journal = absolute(flags.text('journal') ?? journalOf(file))
  return deepFreeze({
    file,
    /** The data file was not named: it begins as a copy of the packaged sample. */
    isSample: flags.text('file') === undefined,
    /** Where typed commands write snapshots; undefined: none are read. */
    snapshots: snapshots === undefined ? undefined : absolute(snapshots),
    /** The journal's directory. */
    journal,
    /** Continue with a journal that does not fit the data file. */
    acceptJournal: flags.has('accept-journal'),
    segmentBytes: values.get('Journal.SegmentBytes'),
    /** Seconds after which a full segment is compressed. */
    compressAfter: values.get('Journal.Compress'),
    /** The settings of a remote journal; undefined: it is in the directory. */
    remote,
    /** The directory of the store that is built from the journal. */
    store: `${journal}/store`,
    /** The hours in which the store is compacted, in minutes since midnight; undefined: never. */
    compactAt: values.get('Store.CompactAt'),
    common: values.section('Common'),
    dataStore: values.section('DataStore'),
    dataFile: { write: values.get('DataFile.Write'), maxDelaySeconds: values.get('DataFile.MaxDelay') },
    /** How edits of the data file are merged. */
    edits: { mode: values.get('DataFile.Edits'), bytes: values.get('DataFile.EditBytes') },
    collections: withTimesOfLatest(values.get('Collections')),
    /** `schemas`: JSON Schemas by collection. */
    api: { ...values.section('Api'), schemas: Object.fromEntries(schemas) },
    authentication,
    urls,
    cors: values.section('Cors'),
    http: { ...values.section('Http'), routes },
    /** The directory of static files in the working directory, where none is named. */
    staticDefault: isJsonServer ? 'public' : 'wwwroot',
    limits: values.section('Limits'),
    simulation: {
      delay: values.section('Simulate.Delay'),
      error: values.section('Simulate.Error'),
      seed: values.get('Simulate.Seed'),
    },
    log: values.section('Log'),
    values,
    warnings: [...sources.warnings, ...warningsOf(values)],
  })
}

/** The schemas of collections, from both settings that name them. */
function readSchemas(
  values: SettingValues,
  context: SettingsContext,
  mistakes: string[],
): ReadonlyMap<string, JsonValue> {
  const schemas = new Map<string, JsonValue>()
  for (const [collection, schema] of values.schemas()) {
    schemas.set(collection, readSchema(`${SCHEMAS}.${collection}`, schema, context, mistakes))
  }
  const collections = values.get('Collections')
  checkCollections(collections, schemas, mistakes)
  for (const [name, { schema }] of Object.entries(collections)) {
    if (schema !== undefined) schemas.set(name, readSchema(`Collections.${name}.Schema`, schema, context, mistakes))
  }
  return schemas
}

function authenticationOf(values: SettingValues): AuthenticationSettings {
  const key = values.get('Authentication.ApiKey')
  const single: readonly ApiKey[] = key === undefined ? [] : [{ name: 'apikey', key, role: 'admin' }]
  const schemes = values.get('Authentication.AuthenticationType').map((type) => type.toLowerCase() as Scheme)
  return {
    enabled: values.get('Authentication.Enabled'),
    schemes: [...new Set(schemes)],
    users: values.get('Authentication.Users'),
    apiKeys: [...values.get('Authentication.ApiKeys'), ...single],
    token: values.section('Authentication.Token'),
  }
}

/** Checks settings that exclude each other. */
function checkCombinations(values: SettingValues, mistakes: string[]): void {
  const { origins = [], credentials } = values.section('Cors')
  for (const any of credentials ? ['*', 'null'].filter((one) => origins.includes(one)) : []) {
    mistakes.push(
      `Cors.Origins must not be ${any} together with Cors.Credentials: every page could act as its visitor.`,
    )
  }
  const { write, maxDelay } = values.section('DataFile')
  if (write !== 'auto' && maxDelay !== undefined)
    mistakes.push(`DataFile.MaxDelay needs DataFile.Write to be auto, not ${write}.`)
  const { minMs, maxMs } = values.section('Simulate.Delay')
  if (minMs > maxMs) mistakes.push('Simulate.Delay.MinMs must not be more than Simulate.Delay.MaxMs.')
}

function warningsOf(values: SettingValues): readonly string[] {
  const itemValues = values.get('Limits.ItemValues')
  if (itemValues <= DEFAULT_ITEM_VALUES) return []
  const ms = Math.round((itemValues / DEFAULT_ITEM_VALUES) * MS_OF_DEFAULT_ITEM)
  return [`Limits.ItemValues is ${itemValues}: a request with such an item may block all others for ${ms} ms or more.`]
}

function deepFreeze<T>(value: T): Readonly<T> {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}
