import type { EditSettings, WriteSettings } from '../data-file/data-file-options.ts'
import type { SimulationSettings } from '../http/simulation.ts'
import { DEFAULT_ITEM_VALUES } from '../json/item-size.ts'
import type { JsonValue } from '../json/value.ts'
import { type AuthenticationSettings, readAuthentication } from './authentication.ts'
import { type CollectionSettings, checkCollections, withTimesOfLatest } from './collections.ts'
import type { ParsedFlags } from './flags.ts'
import { type HttpSettings, readHttp } from './http.ts'
import type { Section } from './keys.ts'
import { keysWith, readSchema, readSources, type SettingsContext } from './sources.ts'
import { type Address, addressesOf } from './urls.ts'
import { SettingValues } from './values.ts'

/** The longest time that a request with an item of the default size blocks others. */
const MS_OF_DEFAULT_ITEM = 15

export interface Settings extends HttpSettings {
  readonly file: string
  /** The data file was not named: it begins as a copy of the packaged sample. */
  readonly isSample: boolean
  /** The journal's directory. */
  readonly journal: string
  /** Continue with a journal that does not fit the data file. */
  readonly acceptJournal: boolean
  readonly urls: readonly Address[]
  readonly common: Section<'Common'>
  readonly dataStore: Section<'DataStore'>
  readonly dataFile: WriteSettings
  /** How edits of the data file are merged. */
  readonly edits: EditSettings
  readonly api: Section<'Api'> & {
    /** JSON Schemas by collection. */
    readonly schemas: Readonly<Record<string, JsonValue>>
  }
  readonly authentication: AuthenticationSettings
  /** The directory of static files; undefined: `wwwroot` in the working directory. */
  readonly staticFiles: string | undefined
  readonly collections: Readonly<Record<string, CollectionSettings>>
  readonly segmentBytes: number
  /** Seconds after which a full segment is compressed. */
  readonly compressAfter: number | 'off'
  /** The directory of the store that is built from the journal. */
  readonly store: string
  /** The hours in which the store is compacted, in minutes since midnight; undefined: never. */
  readonly compactAt: { readonly from: number; readonly until: number } | undefined
  /** The settings of a remote journal; undefined: it is in the directory. */
  readonly remote: object | undefined
  readonly simulation: SimulationSettings
  readonly log: Section<'Log'>
  readonly values: SettingValues
  /** The settings that differ from their defaults, without secrets, for the log. */
  readonly nonDefaults: Readonly<Record<string, unknown>>
  readonly warnings: readonly string[]
}

/** All mistakes in the flags, the environment and the configuration file. */
export class BadSettings extends Error {
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'))
    this.name = 'BadSettings'
    this.mistakes = mistakes
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
export function readSettings(flags: ParsedFlags, context: SettingsContext, mistakes: string[] = []): Settings {
  const { absolute, remoteJournal } = context
  const sources = readSources(flags, context, mistakes)
  const { schemas } = sources
  const values = new SettingValues(sources.values, keysWith(remoteJournal))
  const collections = readCollections(values, schemas, context, mistakes)
  const urls = addressesOf(flags, mistakes)
  const authentication = readAuthentication(values, mistakes)
  const http = readHttp(values, mistakes)
  const dataFile = readDataFile(values, mistakes)
  const simulation = readSimulation(values, mistakes)
  const remote = remoteJournal.read((name) => values.any(name), absolute, mistakes)
  if (mistakes.length > 0) throw new BadSettings(mistakes)

  const named = flags.text('file')
  const file = absolute(named ?? DEFAULT_FILE)
  const journal = absolute(flags.text('journal') ?? journalOf(file))
  const staticFiles = values.get('Http.Static')
  return deepFreeze({
    file,
    isSample: named === undefined,
    journal,
    store: `${journal}/store`,
    compactAt: values.get('Store.CompactAt'),
    acceptJournal: flags.has('accept-journal'),
    urls,
    common: values.section('Common'),
    dataStore: values.section('DataStore'),
    dataFile,
    edits: { mode: values.get('DataFile.Edits'), bytes: values.get('DataFile.EditBytes') },
    api: { ...values.section('Api'), schemas: Object.fromEntries(schemas) },
    authentication,
    ...http,
    staticFiles: staticFiles === '' ? undefined : absolute(staticFiles),
    collections,
    segmentBytes: values.get('Journal.SegmentBytes'),
    compressAfter: values.get('Journal.Compress'),
    remote,
    simulation,
    log: values.section('Log'),
    values,
    nonDefaults: values.nonDefaults(schemas),
    warnings: [...sources.warnings, ...warningsOf(values)],
  })
}

/** Adds the schemas of collections to `schemas`. */
function readCollections(
  values: SettingValues,
  schemas: Map<string, JsonValue>,
  context: SettingsContext,
  mistakes: string[],
): Settings['collections'] {
  const collections = values.get('Collections') ?? {}
  checkCollections(collections, schemas, mistakes)
  for (const [name, { schema }] of Object.entries(collections)) {
    if (schema === undefined) continue
    const read = readSchema(`Collections.${name}.Schema`, schema, '', context, mistakes)
    if (read !== undefined) schemas.set(name, read)
  }
  return withTimesOfLatest(collections)
}

function warningsOf(values: SettingValues): readonly string[] {
  const itemValues = values.get('Limits.ItemValues')
  if (itemValues <= DEFAULT_ITEM_VALUES) return []
  const ms = Math.round((itemValues / DEFAULT_ITEM_VALUES) * MS_OF_DEFAULT_ITEM)
  return [`Limits.ItemValues is ${itemValues}: a request with such an item may block all others for ${ms} ms or more.`]
}

function readDataFile(values: SettingValues, mistakes: string[]): WriteSettings {
  const [write, maxDelaySeconds] = [values.get('DataFile.Write'), values.get('DataFile.MaxDelay')]
  if (write !== 'auto' && maxDelaySeconds !== undefined)
    mistakes.push(`DataFile.MaxDelay needs DataFile.Write to be auto, not ${write}.`)
  return { write, maxDelaySeconds }
}

function readSimulation(values: SettingValues, mistakes: string[]): SimulationSettings {
  const [delay, error] = [values.section('Simulate.Delay'), values.section('Simulate.Error')]
  if (delay.minMs > delay.maxMs) mistakes.push('Simulate.Delay.MinMs must not be more than Simulate.Delay.MaxMs.')
  return { delay, error, seed: values.get('Simulate.Seed') }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}
