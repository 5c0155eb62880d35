import { CONTENT_SECURITY_POLICY } from '../http/headers.ts'
import { MOST_DELAY_MS } from '../http/simulation.ts'
import { DEFAULT_ITEM_VALUES } from '../json/parse.ts'
import type { JsonValue } from '../json/value.ts'
import { API_KEYS, SCHEME_NAMES, TOKEN_SECRET, USERS } from './authentication.ts'
import { COLLECTIONS, SCHEMA_OR_PATH } from './collections.ts'
import { BASE_PATH, HOSTS, ORIGINS, PROXIES } from './http.ts'
import {
  boolean,
  choice,
  fieldName,
  hours,
  integer,
  type Key,
  METHODS,
  methods,
  probability,
  secondsOrOff,
  secret,
  secretObjects,
  text,
  texts,
} from './kinds.ts'

/** The items of a file of this size are held in memory. */
const MOST_EDIT_BYTES = 256 * 1024 * 1024
const SECONDS_A_WEEK = 7 * 24 * 60 * 60

/**
 * The settings, without those of a remote journal. `--help`, the checks, the suggestions for misspelt names and the
 * table in docs/api.md are generated from here.
 */
export const KEYS = {
  'Common.EagerDataReload': boolean('merge edits of the data file as soon as it changes, as --watch does'),
  'DataStore.IdField': fieldName(
    'id',
    'the field of an item that is its id; it cannot be changed for an existing journal',
  ),
  'DataFile.Write': choice(
    'auto',
    ['auto', 'stop', 'never'],
    'when the data file is written: behind the journal, only at a clean stop, or only by POST /admin/snapshot',
  ),
  'DataFile.MaxDelay': integer(
    undefined,
    1,
    'seconds after which a data file that is behind is written, however little has changed',
    SECONDS_A_WEEK,
  ),
  'DataFile.Edits': choice(
    'merge',
    ['merge', 'replace'],
    'what a saved data file is: the changes of its editor, or, as in json-server, the state from now on',
  ),
  'DataFile.EditBytes': integer(
    8 * 1024 * 1024,
    0,
    'bytes of a data file up to which the version that was edited is searched; a larger one is compared with the version written last',
    MOST_EDIT_BYTES,
  ),
  'Api.ReadOnly': boolean('refuse all writes and merge no edits of the data file, as --read-only does'),
  'Api.UseResultObject': boolean('a page of a collection is an object with results, link and count'),
  'Api.UpsertOnPut': boolean('PUT creates an item that does not exist'),
  'Api.ClientIdsOnPost': boolean('POST keeps the id that the client sends'),
  'Api.Compatibility': choice(
    'none',
    ['none', 'json-server'],
    'json-server: behave as it does where the two differ, as --json-server does; the port and other defaults change with it',
  ),
  'Api.ForeignKeySuffix': fieldName(
    'Id',
    'the end of the name of a field that refers to another item: postId refers to an item of posts',
  ),
  'Api.Reset': boolean('POST /admin/reset returns to the first data'),
  'Api.StrictQuery': boolean('refuse queries that name a field that no item of the collection has'),
  'Authentication.Enabled': boolean('requests need credentials'),
  'Authentication.AuthenticationType': texts(['token'], 'token, basic, apikey, or several of them', SCHEME_NAMES),
  'Authentication.Users': secretObjects(
    'Username, Password (a hash from recollect hash-password) and Role of each user',
    USERS,
  ),
  'Authentication.ApiKey': secret('an API key with the role admin'),
  'Authentication.ApiKeys': secretObjects('Name, Key and Role of each API key', API_KEYS),
  'Authentication.Token.Secret': secret('signs tokens, at least 32 bytes; by default a generated one', TOKEN_SECRET),
  'Authentication.Token.ExpiresInSeconds': integer(3600, 1, 'seconds that a token is valid'),
  'Cors.Origins': texts(
    undefined,
    'origins whose pages may call, such as https://app.example; when not given, those of this machine',
    ORIGINS,
  ),
  'Cors.Credentials': boolean('browsers may send cookies and the credentials that they hold themselves'),
  'Http.ContentSecurityPolicy': text(CONTENT_SECURITY_POLICY, 'the Content-Security-Policy of pages; empty for none', {
    shownDefault: 'see docs/security.md',
  }),
  'Http.BasePath': text('', 'the path below which a reverse proxy serves it, such as /recollect', BASE_PATH),
  'Http.Hosts': texts(
    [],
    'host names of the server where authentication is off, besides those of this machine; * for all',
    HOSTS,
  ),
  'Http.KeepAliveSeconds': integer(65, 1, 'seconds that a connection stays open between two requests', 3600),
  'Http.Routes': text('', 'a JSON file of other addresses and the ones that they stand for, as --routes'),
  'Http.Static': text(
    '',
    'the directory of files beside the packaged pages; when empty, ./wwwroot, or ./public as json-server',
  ),
  'Simulate.Delay.Enabled': boolean('requests below /api are answered late'),
  'Simulate.Delay.Methods': methods(METHODS, 'the methods of requests that are delayed; HEAD is delayed as GET is'),
  'Simulate.Delay.MinMs': integer(500, 0, 'milliseconds that a request is delayed at least', MOST_DELAY_MS),
  'Simulate.Delay.MaxMs': integer(5000, 0, 'milliseconds that a request is delayed at most', MOST_DELAY_MS),
  'Simulate.Error.Enabled': boolean('requests below /api fail with 500 at random'),
  'Simulate.Error.Methods': methods(METHODS.slice(1), 'the methods of requests that fail; HEAD fails as GET does'),
  'Simulate.Error.Probability': probability(0.5, 'the share of these requests that fails; more than 1 is a percentage'),
  'Simulate.Seed': integer(1, 0, 'with the same seed, the same requests are delayed as long and fail', 2 ** 32 - 1),
  'Limits.BodyBytes': integer(1024 * 1024, 1, 'bytes of a request body, and of an item without its id'),
  'Limits.ItemValues': integer(
    DEFAULT_ITEM_VALUES,
    1,
    'values of an item without its id: a list element counts as 1, a member as 4',
  ),
  'Limits.BatchBytes': integer(10 * 1024 * 1024, 1, 'bytes of a batch of items, also after decompression'),
  'Limits.BatchItems': integer(10_000, 1, 'items of a batch'),
  'Limits.AtomicItems': integer(
    10_000,
    1,
    'items that a deletion deletes in one write; more are deleted in several, between which others write',
  ),
  'Limits.PastItems': integer(
    200_000,
    0,
    'expired items that a past state of a collection may have; a state with more is written by recollect replay',
  ),
  'Limits.HeaderBytes': integer(32 * 1024, 1024, 'bytes of the request line and all headers of a request'),
  'Limits.HeaderSeconds': integer(20, 1, 'seconds that the headers of a request may take'),
  'Limits.RequestSeconds': integer(60, 1, 'seconds that a whole request may take'),
  'Limits.StallSeconds': integer(30, 1, 'seconds after which a client that does not read its response is disconnected'),
  'Limits.QueryBytes': integer(16 * 1024, 1, 'bytes of a query string'),
  'Limits.QueryParameters': integer(1000, 1, 'parameters of a query'),
  'Limits.PageSize': integer(10_000, 1, 'items of a page'),
  'Limits.MemoryBytes': integer(
    0,
    0,
    'bytes of memory that all requests together may hold; 0: a third of the heap of V8 (node --max-old-space-size)',
  ),
  'Limits.IndexBytes': integer(0, 0, 'bytes that the indexes of queries may take; 0: half of what the items take'),
  Collections: COLLECTIONS,
  'Limits.ScanSeconds': integer(30, 1, 'seconds that a query without a matching index may take, except for admins'),
  'Limits.PatchOperations': integer(1000, 1, 'operations of a JSON Patch'),
  'Limits.Connections': integer(
    0,
    0,
    'open connections; 0: as many as the limit of open files (ulimit -n) has room for',
  ),
  'Limits.ConnectionsPerAddress': integer(
    512,
    1,
    'connections of one address, except of this machine and of trusted proxies',
  ),
  'Limits.SocketsPerAddress': integer(256, 1, 'open sockets of one address'),
  'Limits.StreamsPerAddress': integer(64, 1, 'open streams of events (/events) of one address'),
  'Limits.SubscriptionItems': integer(10_000, 1, 'items that a subscription may begin with'),
  'Limits.SubscriptionsPerSocket': integer(100, 1, 'subscriptions of one socket'),
  'Limits.FailuresPerMinute': integer(20, 1, 'wrong credentials of one address in a minute'),
  'Limits.TrustedProxies': texts(
    [],
    'addresses and networks whose X-Forwarded-For and X-Forwarded-Prefix are trusted',
    PROXIES,
  ),
  'Log.Level': choice(
    'info',
    ['fatal', 'error', 'warn', 'info', 'debug', 'silent'],
    'the least level that is logged; debug has a line for each request',
  ),
  'Log.Format': choice(
    'auto',
    ['auto', 'text', 'json'],
    'text for people, with a line for each request, or json; auto: text on a terminal, else json',
  ),
  'Log.SlowMs': integer(
    1000,
    0,
    'milliseconds; a response that takes longer to begin is logged as a warning, at most one a minute; 0: none is',
  ),
  'Limits.WaitSeconds': integer(5, 0, 'seconds that Wait-For-Position waits at most'),
  'Journal.SegmentBytes': integer(64 * 1024 * 1024, 1024, 'bytes of a segment, after which a new one is begun'),
  'Journal.Compress': secondsOrOff(
    60,
    'seconds after which a full segment is compressed; off: segments stay plain text',
  ),
  'Store.CompactAt': hours(
    'when a store of which a third is free is compacted: auto: in quiet minutes; 03:00-05:00: in these hours, in local time; off: never',
  ),
} as const satisfies Readonly<Record<string, Key<unknown>>>

/** The defaults that `Api.Compatibility` changes. */
export const JSON_SERVER_DEFAULTS: Readonly<Partial<Record<string, unknown>>> = {
  'Common.EagerDataReload': true,
  'DataFile.Edits': 'replace',
  'Api.ClientIdsOnPost': true,
  'Api.Reset': true,
} satisfies { readonly [Name in KeyName]?: ValueOf<Name> }

/** JSON Schemas by collection: the only setting whose keys are not known in advance. */
export const SCHEMAS = 'Api.Schemas'
export const SCHEMA: Key<JsonValue | undefined> = {
  ...SCHEMA_OR_PATH,
  default: undefined,
  description: "the JSON Schema that the collection's items must satisfy, or the path of one",
  shownType: 'path',
}

export type KeyName = keyof typeof KEYS
export type ValueOf<Name extends KeyName> = (typeof KEYS)[Name]['default']

/** The settings of a section, with `Limits.PageSize` as `pageSize`. */
export type Section<Name extends string> = {
  readonly [Full in KeyName as Full extends `${Name}.${infer Rest}` ? Uncapitalize<Rest> : never]: ValueOf<Full>
}
