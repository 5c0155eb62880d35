import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CommandName, commandsWith, helpText } from '../src/cli/commands.ts'
import { CLUSTER } from '../src/cluster/cluster.ts'
import type { ClusterSettings } from '../src/cluster/settings.ts'
import type { Settings } from '../src/settings/settings.ts'
import { type Given, mistakes, PACKAGED, read, settings } from './support/settings.ts'

/** Settings with a default, another value as text, and where they are found. */
const KEYS: readonly [string, boolean | number, string, (settings: Settings) => unknown][] = [
  ['Common.EagerDataReload', false, 'true', ({ common }) => common.eagerDataReload],
  ['Api.UseResultObject', false, 'true', ({ api }) => api.useResultObject],
  ['Api.UpsertOnPut', false, 'true', ({ api }) => api.upsertOnPut],
  ['Api.Reset', false, 'true', ({ api }) => api.reset],
  ['Api.StrictQuery', false, 'true', ({ api }) => api.strictQuery],
  ['Api.ClientIdsOnPost', false, 'true', ({ api }) => api.clientIdsOnPost],
  ['Limits.BatchBytes', 10 * 1024 * 1024, '4096', ({ limits }) => limits.batchBytes],
  ['Limits.BatchItems', 10_000, '100', ({ limits }) => limits.batchItems],
  ['Limits.AtomicItems', 10_000, '100', ({ limits }) => limits.atomicItems],
  ['Limits.BodyBytes', 1024 * 1024, '4096', ({ limits }) => limits.bodyBytes],
  ['Limits.IndexBytes', 0, '1000', ({ limits }) => limits.indexBytes],
  ['Limits.ScanSeconds', 30, '7', ({ limits }) => limits.scanSeconds],
  ['Limits.PageSize', 10_000, '20', ({ limits }) => limits.pageSize],
  ['Limits.QueryParameters', 1000, '7', ({ limits }) => limits.queryParameters],
  ['Limits.PatchOperations', 1000, '3', ({ limits }) => limits.patchOperations],
  ['Journal.SegmentBytes', 64 * 1024 * 1024, '2048', ({ segmentBytes }) => segmentBytes],
]

test('a base path loses its trailing slash; an invalid one, or that of a server path, is rejected', () => {
  const basePath = (value: string) => settings({ argv: ['--Http.BasePath', value] }).http.basePath
  assert.equal(settings().http.basePath, '')
  assert.equal(basePath('/recollect'), '/recollect')
  assert.equal(basePath('/a/b/'), '/a/b')
  for (const value of ['recollect', 'http://x/y', '/a b', '/a/../b']) {
    mistakes(
      { env: { Http__BasePath: value } },
      /^The environment variable Http__BasePath must be a path such as \/recollect, not ".*"\.$/,
    )
  }
  for (const value of ['/api', '/events/x', '/assets']) {
    mistakes({ argv: ['--Http.BasePath', value] }, /^The flag --Http\.BasePath must not be .*X-Forwarded-Prefix\.$/)
  }
})

test('the id field must be a plain name', () => {
  assert.equal(settings().dataStore.idField, 'id')
  assert.equal(settings({ argv: ['--DataStore.IdField', '_id'] }).dataStore.idField, '_id')
  const files = { '/work/appsettings.json': { DataStore: { IdField: 'key' } } }
  assert.equal(settings({ files }).dataStore.idField, 'key')
  for (const wrong of ['a.b', 'a b', '1a', '__proto__', 'ä', 'x'.repeat(65)])
    mistakes({ argv: [`--DataStore.IdField=${wrong}`] }, /DataStore\.IdField must be a name of 1 to 64 letters/)
  mistakes({ argv: ['verify', '--id-field', 'a.b'] }, /--id-field must be a name/)
})

test('a simulation has methods, ordered bounds and a probability up to 1, or a percentage', () => {
  const { delay, error, seed } = settings().simulation
  assert.deepEqual([delay.enabled, error.enabled, seed], [false, false, 1])
  assert.deepEqual(settings({ argv: ['--Simulate.Delay.Methods', 'GET,PUT'] }).simulation.delay.methods, ['GET', 'PUT'])
  const file = (Simulate: object): Given => ({ files: { '/work/appsettings.json': { Simulate } } })
  assert.equal(settings(file({ Error: { Probability: 0.25 } })).simulation.error.probability, 0.25)
  assert.equal(settings({ argv: ['--Simulate.Error.Probability=1'] }).simulation.error.probability, 1)
  assert.equal(settings(file({ Error: { Probability: 50 } })).simulation.error.probability, 0.5)
  assert.equal(settings({ argv: ['--Simulate.Error.Probability=100'] }).simulation.error.probability, 1)
  mistakes(file({ Error: { Probability: 101 } }), /a number from 0 to 1, or a percentage up to 100, not 101/)
  mistakes(file({ Error: { Probability: -1 } }), /a number from 0 to 1/)
  mistakes({ argv: ['--Simulate.Error.Probability=often'] }, /a number from 0 to 1/)
  mistakes({ argv: ['--Simulate.Error.Methods=get'] }, /a list of GET, POST, PUT, PATCH and DELETE, not "get"/)
  mistakes(file({ Delay: { MinMs: 9000 } }), /Simulate\.Delay\.MinMs must not be more than Simulate\.Delay\.MaxMs/)
  mistakes(file({ Delay: { MaxMs: 30_001 } }), /Simulate\.Delay\.MaxMs must be an integer from 0 to 30000/)
})

const inFile = (key: string, value: unknown) => {
  const [section = '', name = ''] = key.split('.')
  return { [section]: { [name]: value } }
}
const asVariable = (key: string) => key.replace('.', '__')

test('without flags, variables and files the defaults apply', () => {
  const { file, isSample, journal, acceptJournal, urls, ...others } = settings()
  assert.deepEqual(
    { file, isSample, journal, acceptJournal, urls },
    {
      file: '/work/data/datastore.json',
      isSample: true,
      journal: '/work/data/datastore.journal',
      acceptJournal: false,
      urls: [{ host: 'localhost', port: 57602 }],
    },
  )
  assert.deepEqual(others.api.schemas, {})
  for (const [key, otherwise, , get] of KEYS) assert.equal(get(settings()), otherwise, key)
})

test('a setting is taken from the flag, else the environment, else the file, else the default', () => {
  for (const [key, otherwise, text, get] of KEYS) {
    const value = JSON.parse(text) as boolean | number
    const other = typeof value === 'boolean' ? false : 5000
    const files = { '/work/appsettings.json': inFile(key, value) }
    assert.notEqual(value, otherwise)
    assert.equal(get(settings({ files })), value, `${key} of the file`)
    assert.equal(get(settings({ env: { [asVariable(key)]: text } })), value, `${key} of the environment`)
    assert.equal(get(settings({ argv: [`--${key}`, text] })), value, `${key} of the flag`)
    assert.equal(get(settings({ argv: [`--${key}=${text}`] })), value, `${key} of the flag with =`)
    const env = { [asVariable(key)]: String(other) }
    assert.equal(get(settings({ files, env })), other, `${key}: environment over file`)
    assert.equal(get(settings({ files, env, argv: [`--${key}`, text] })), value, `${key}: flag over both`)
  }
})

test('Store.CompactAt is auto, off, or hours of a day, which may include midnight', () => {
  const hours = (text: string) => settings({ argv: ['--Store.CompactAt', text] }).compactAt
  assert.equal(settings().compactAt, 'auto')
  assert.equal(hours('off'), 'off')
  assert.equal(hours('auto'), 'auto')
  assert.deepEqual(hours('03:00-05:30'), { from: 180, until: 330 })
  assert.deepEqual(hours('23:00-01:00'), { from: 1380, until: 60 })
  assert.deepEqual(hours('00:00-24:00'), { from: 0, until: 1440 })
  for (const text of ['3-5', '03:00', '03:00-03:00', '03:60-04:00', '24:00-01:00', '03:00-24:01', 'on', '']) {
    mistakes({ argv: [`--Store.CompactAt=${text}`] }, /Store\.CompactAt/)
  }
})

test('DataFile.Write has three values, and DataFile.MaxDelay applies only to the first', () => {
  assert.deepEqual(settings().dataFile, { write: 'auto', maxDelaySeconds: undefined })
  assert.deepEqual(settings({ argv: ['--DataFile.MaxDelay', '60'] }).dataFile, { write: 'auto', maxDelaySeconds: 60 })
  assert.deepEqual(settings({ env: { DataFile__Write: 'stop' } }).dataFile, {
    write: 'stop',
    maxDelaySeconds: undefined,
  })
  const files = { '/work/appsettings.json': { DataFile: { Write: 'never' } } }
  assert.deepEqual(settings({ files }).dataFile, { write: 'never', maxDelaySeconds: undefined })
  mistakes({ argv: ['--DataFile.Write', 'always'] }, /DataFile\.Write must be one of auto, stop, never, not "always"/)
  for (const wrong of ['0', '604801', '1.5', 'x'])
    mistakes({ argv: [`--DataFile.MaxDelay=${wrong}`] }, /DataFile\.MaxDelay must be an integer from 1 to 604800/)
  mistakes(
    { files, argv: ['--DataFile.MaxDelay', '60'] },
    /DataFile\.MaxDelay needs DataFile\.Write to be auto, not never/,
  )
})

test('the indexes of collections are lists of fields, and an invalid one is rejected with a correction', () => {
  const wanted = { 'a.b': { Indexes: ['mac,timestamp', 'data.temperature', 'a\\,b'] } }
  const read = { 'a.b': { indexes: [[['mac'], ['timestamp']], [['data', 'temperature']], [['a,b']]] } }
  assert.deepEqual(settings({ files: { '/work/appsettings.json': { Collections: wanted } } }).collections, read)
  assert.deepEqual(settings({ argv: ['--Collections', JSON.stringify(wanted)] }).collections, read)
  for (const [wrong, right] of [
    ['x', /^The flag --Collections must be an object of settings by collection, such as .*, not "x"\.$/],
    ['[]', /--Collections must be an object of settings by collection/],
    ['{"a":[]}', /--Collections\.a must be an object, not \[\]/],
    ['{"a":{"indexes":["b"]}}', /--Collections\.a has an unknown key indexes; there are Indexes, Time, /],
    [
      '{"a":{"Indexes":["b,c,d,e,f"]}}',
      /--Collections\.a\.Indexes must be a list of at most 16 indexes, each of one to four .*, not \["b,c,d,e,f"\]/,
    ],
    ['{"a":{"Indexes":[""]}}', /--Collections\.a\.Indexes must be a list of at most 16 indexes, .*, not \[""\]/],
    ['{"a":{"Indexes":"b"}}', /--Collections\.a\.Indexes must be a list of at most 16 indexes/],
  ] as const) {
    mistakes({ argv: ['--Collections', wrong] }, right)
  }
})

test('a collection has a natural key, latest items and a schema', () => {
  const Collections = {
    'a.b': {
      Time: 'at',
      Key: ['mac', 'data.at'],
      OnConflict: 'replace',
      Latest: { in: 'c', by: 'mac' },
      Schema: false,
    },
  }
  const { collections, api } = settings({ files: { '/work/appsettings.json': { Collections } } })
  const read = {
    indexes: [],
    time: { path: ['at'], isTimeRequired: false, defaultsToReceipt: false, maxAheadMs: 86_400_000 },
    key: [['mac'], ['data', 'at']],
    isReplacing: true,
    latest: { in: 'c', by: ['mac'] },
    schema: false,
  }
  const latest = { indexes: [], time: read.time }
  assert.deepEqual(collections, { 'a.b': read, c: latest }, 'latest items have the event time of their readings')
  assert.deepEqual(api.schemas, { 'a.b': false })
  const given = (value: unknown, schemas: object = {}): Given => ({
    files: { '/work/appsettings.json': { Api: { Schemas: schemas }, Collections: value } },
  })
  for (const [wrong, right] of [
    [{ Key: [] }, /json: Collections\.a\.Key must be a list of one to four different fields of the items, not \[\]/],
    [
      { Key: ['a', 'a'] },
      /json: Collections\.a\.Key must be a list of one to four different fields of the items, not \["a","a"\]/,
    ],
    [{ Key: 'a' }, /json: Collections\.a\.Key must be a list of one to four different fields of the items, not "a"/],
    [{ Time: 't', Latest: { in: 'c' } }, /json: Collections\.a\.Latest\.by must be a field of the items/],
    [{ OnConflict: 'x' }, /json: Collections\.a\.OnConflict must be one of refuse, replace, not "x"/],
    [{ Indexes: ['$received'] }, /json: Collections\.a\.Indexes must be a list of .*, not \["\$received"\]/],
  ] as const) {
    mistakes(given({ a: wrong }), right)
  }
  mistakes(
    given({ a: { Schema: true } }, { a: true }),
    /Give the schema of "a" either as Collections\.a\.Schema or as Api\.Schemas\.a/,
  )
  mistakes(
    given({ a: { Schema: 'gone.json' } }),
    /Collections\.a\.Schema names \/work\/gone\.json, which does not exist/,
  )
  mistakes(given({ a: { OnConflict: 'replace' } }), /Collections\.a\.OnConflict needs Collections\.a\.Key/)
  mistakes(given({ a: { Latest: { in: 'c', by: 'm' } } }), /Collections\.a\.Latest needs Time: a field of the items/)
  mistakes(given({ a: { Time: 't', Latest: { in: 'a', by: 'm' } } }), /another collection than "a" itself/)
  mistakes(given({ a: { Time: 't', Latest: { in: 'c', by: 'm' } }, c: { Key: ['x'] } }), /neither Key nor Latest/)
})

test('event times can be required, default to the time of receipt, and be ahead by so much', () => {
  const given = (value: unknown): Given => ({ files: { '/work/appsettings.json': { Collections: { a: value } } } })
  const timeOf = (value: object) => settings(given({ Time: 't', ...value })).collections.a?.time
  assert.equal(timeOf({ TimeRequired: true })?.isTimeRequired, true)
  assert.equal(timeOf({ TimeDefault: 'received' })?.defaultsToReceipt, true)
  for (const [written, ms] of [
    [90, 90_000],
    ['90m', 5_400_000],
    ['2h', 7_200_000],
    ['1w', 604_800_000],
  ] as const) {
    assert.equal(timeOf({ MaxAhead: written })?.maxAheadMs, ms)
  }
  for (const [wrong, right] of [
    [{ TimeRequired: 'yes' }, /TimeRequired must be true or false, not "yes"/],
    [{ TimeDefault: 'now' }, /TimeDefault must be one of received, not "now"/],
    [{ MaxAhead: 'soon' }, /MaxAhead must be a number of seconds, or a duration such as 90m or 1d, not "soon"/],
    [{ MaxAhead: -1 }, /MaxAhead must be a number of seconds, .*, not -1/],
  ] as const) {
    mistakes(given({ Time: 't', ...wrong }), right)
  }
  for (const [name, value] of Object.entries({ TimeRequired: true, TimeDefault: 'received', MaxAhead: '1d' })) {
    mistakes(given({ [name]: value }), new RegExp(`Collections\\.a\\.${name} needs Time: a field of the items`))
  }
  for (const received of [
    { Time: '$received' },
    { Key: ['$received'] },
    { Time: 't', Latest: { in: 'b', by: '$received' } },
  ]) {
    mistakes(given(received), /Collections\.a\..* must be .*field.* of the items.*, not \[?"\$received"/)
  }
  const source = (Time: string) => ({ Time, Latest: { in: 'c', by: 'm' } })
  mistakes(
    { files: { '/work/appsettings.json': { Collections: { a: source('t'), b: source('u') } } } },
    /Collections\.a\.Time must be the same for all collections whose Latest names "c"/,
    /Collections\.b\.Time must be the same/,
  )
  const own = settings({
    files: {
      '/work/appsettings.json': { Collections: { a: { Time: 't', Latest: { in: 'b', by: 'm' } }, b: { Time: 'u' } } },
    },
  })
  assert.deepEqual(own.collections.b?.time?.path, ['u'], 'latest items may have another event time')
})

test('Keep is a duration, and KeepItems a positive number of items', () => {
  const given = (value: unknown): Given => ({ files: { '/work/appsettings.json': { Collections: { a: value } } } })
  const { keep, keepItems } = settings(given({ Keep: '90d', KeepItems: 1000 })).collections.a ?? {}
  assert.deepEqual([keep, keepItems], [{ text: '90d', ms: 90 * 24 * 60 * 60 * 1000 }, 1000])
  for (const wrong of ['90', '90 days', '0d', '-1d', '']) {
    mistakes(given({ Keep: wrong }), /Collections\.a\.Keep must be a duration such as 90d, 12h or 4w, not "/)
  }
  mistakes(given({ Keep: 90 }), /Collections\.a\.Keep must be a duration such as 90d, 12h or 4w, not 90/)
  mistakes(given({ KeepItems: 0 }), /Collections\.a\.KeepItems must be .*1.*, not 0/)
})

test('a journal in JetStream needs servers and a valid name, and has three replicas on three servers', () => {
  assert.equal(settings().remote, undefined)
  assert.equal(settings({ argv: ['--Journal.Servers', 'nats://a:4222'] }).remote, undefined)
  const jetstream = (...argv: string[]) =>
    settings({ argv: ['--Journal.Type', 'jetstream', ...argv] }).remote as ClusterSettings
  assert.deepEqual(jetstream('--Journal.Servers', 'nats://a:4222, b:4222'), {
    servers: ['nats://a:4222', 'b:4222'],
    stream: 'recollect',
    replicas: 1,
    credentials: undefined,
  })
  const three = ['--Journal.Servers', 'a,b,c', '--Journal.Stream', 'x-1', '--Journal.Credentials', 'n.creds']
  assert.deepEqual(jetstream(...three), {
    servers: ['a', 'b', 'c'],
    stream: 'x-1',
    replicas: 3,
    credentials: '/work/n.creds',
  })
  assert.equal(jetstream(...three, '--Journal.Replicas', '5').replicas, 5)
  mistakes({ argv: ['--Journal.Type', 'jetstream'] }, /Journal\.Servers must name/)
  mistakes(
    {
      argv: ['--Journal.Type', 'jetstream', '--Journal.Servers', 'http://user:secret@a/', '--Journal.Stream', 'a.b'],
    },
    /^(?!.*secret).*Journal\.Servers must hold URLs/s,
    /Journal\.Stream/,
  )
  mistakes({ argv: ['--Journal.Type', 'kafka'] }, /Journal\.Type must be one of file, jetstream/)
})

test('the settings file is the given one, else appsettings.json of the working directory, else the packaged one', () => {
  const files = {
    '/work/named.json': { Limits: { PageSize: 1 } },
    '/work/appsettings.json': { Limits: { PageSize: 2 } },
    [PACKAGED]: { Limits: { PageSize: 3 } },
  }
  const pageSize = (given: Given) => settings(given).limits.pageSize
  assert.equal(pageSize({ files, argv: ['--settings', 'named.json'] }), 1)
  assert.equal(pageSize({ files }), 2)
  assert.equal(pageSize({ files: { [PACKAGED]: files[PACKAGED] } }), 3)
})

test('a settings file may begin with a byte order mark, as editors on Windows write it', () => {
  const files = { '/work/appsettings.json': '\uFEFF{"Limits": {"PageSize": 2}, "Api": {"Schemas": {"a": "a.json"}}}' }
  const { limits, api } = settings({ files: { ...files, '/work/a.json': '\uFEFF{"type": "object"}' } })
  assert.deepEqual([limits.pageSize, api.schemas], [2, { a: { type: 'object' } }])
})

test('segments can be compressed after at most the longest delay of a timer', () => {
  const compressAfter = (text: string) => settings({ argv: ['--Journal.Compress', text] }).compressAfter
  assert.deepEqual([settings().compressAfter, compressAfter('off'), compressAfter('2147483')], [60, 'off', 2_147_483])
  mistakes({ argv: ['--Journal.Compress', '2592000'] }, /a number of seconds up to 2147483 \(24 days\), or off/)
})

test('an environment variable inside of Collections is answered with how to set it', () => {
  const env = { Collections__sensordatas__Time: 'timestamp' }
  mistakes({ env }, /Collections__sensordatas__Time names no setting; Collections is one setting, whose value is JSON/)
})

test('the journal is beside the data file unless configured', () => {
  assert.equal(settings({ argv: ['--file', 'a/b.json'] }).journal, '/work/a/b.journal')
  assert.equal(settings({ argv: ['--file', '/a/b.JSON'] }).journal, '/a/b.journal')
  assert.equal(settings({ argv: ['--file', 'b.data'] }).journal, '/work/b.data.journal')
  assert.equal(settings({ argv: ['--file', 'b.json', '--journal', '/j'] }).journal, '/j')
})

test('a given data file is never treated as the sample', () => {
  assert.equal(settings({ argv: ['--file', 'data/datastore.json'] }).isSample, false)
})

test('a path that looks like a number is a path', () => {
  assert.equal(settings({ argv: ['--file', '00123'] }).file, '/work/00123')
  assert.equal(settings({ argv: ['--file=1e3', '--journal', '007'] }).journal, '/work/007')
})

test('there may be several addresses, for all interfaces, of IPv6, and without a port', () => {
  const urls = (text: string) => settings({ argv: ['--urls', text] }).urls
  assert.deepEqual(urls('http://0.0.0.0:57602'), [{ host: '0.0.0.0', port: 57602 }])
  assert.deepEqual(urls('http://*:0;http://+:81/'), [
    { host: undefined, port: 0 },
    { host: undefined, port: 81 },
  ])
  assert.deepEqual(urls(' http://[::1]:5000 ; HTTP://example.org;'), [
    { host: '::1', port: 5000 },
    { host: 'example.org', port: 80 },
  ])
})

test('an invalid address is a mistake', () => {
  for (const text of [
    'localhost:57602',
    '57602',
    'https://localhost:1',
    'ftp://localhost',
    'http://',
    'http://localhost:99999',
    'http://localhost:-1',
    'http://localhost:1/path',
    'http://localhost:1?x',
    'http://user@localhost:1',
    'http://**:1',
  ]) {
    mistakes({ argv: ['--urls', text] }, /--urls/)
    mistakes({ argv: ['--urls', `http://localhost:1;${text}`] }, /--urls/)
  }
  mistakes({ argv: ['--urls', ';'] }, /--urls/)
})

test('an unknown flag and a second argument are mistakes', () => {
  mistakes({ argv: ['--prot', '1'] }, /--prot\b/)
  mistakes({ argv: ['--prot=1'] }, /--prot\b/)
  mistakes({ argv: ['-f', 'x'] }, /-f\b/)
  mistakes({ argv: ['db.json', 'other.json'] }, /"other\.json"/)
  mistakes({ argv: ['--', 'db.json', 'other.json'] }, /"other\.json"/)
  mistakes({ argv: ['--File', 'x'] }, /--File\b/)
  mistakes({ argv: ['--api.UpsertOnPut=true'] }, /--api\.UpsertOnPut/)
  mistakes({ argv: ['--Api.Upsert=true'] }, /--Api\.Upsert\b/)
  mistakes({ argv: ['--no-accept-journal'] }, /--no-accept-journal/)
  mistakes({ argv: ['--no-file'] }, /--no-file/)
  mistakes({ argv: ['--accept-journal=yes'] }, /--accept-journal has no value/)
})

test('a flag without a value is a mistake', () => {
  for (const flag of ['file', 'urls', 'journal', 'settings', 'Api.UpsertOnPut', 'Limits.PageSize']) {
    mistakes({ argv: [`--${flag}`] }, new RegExp(`--${flag} needs a value`))
    mistakes({ argv: [`--${flag}=`] }, new RegExp(`--${flag} needs a value`))
    mistakes({ argv: [`--${flag}`, '--accept-journal'] }, new RegExp(`--${flag} needs a value`))
  }
})

test('a repeated flag is a mistake, even with the same value', () => {
  for (const flag of ['file', 'urls', 'journal', 'settings', 'Limits.PageSize']) {
    mistakes({ argv: [`--${flag}`, '1', `--${flag}=1`] }, new RegExp(`--${flag} is given more than once`))
  }
})

test('a value of the wrong type is a mistake that names the expected type', () => {
  for (const [key, otherwise] of KEYS) {
    const expected = typeof otherwise === 'boolean' ? /true or false/ : /integer/
    const wrong =
      typeof otherwise === 'boolean'
        ? ['yes', '1', 'True', '']
        : ['many', '-1', '1.5', '1e3', '0x10', '', ' ', '9007199254740993', 'true']
    for (const text of wrong) {
      if (text !== '') mistakes({ argv: [`--${key}=${text}`] }, expected)
      mistakes({ env: { [asVariable(key)]: text } }, expected)
    }
    for (const value of [null, [], {}, 'true', '1', typeof otherwise === 'boolean' ? 1 : 1.5]) {
      mistakes({ files: { '/work/appsettings.json': inFile(key, value) } }, expected)
    }
  }
  mistakes({ argv: ['--Limits.PageSize', '0'] }, /Limits\.PageSize.*at least 1\b/)
})

test('unknown keys and sections of the file are mistakes that list the known ones', () => {
  const file = (content: unknown): Given => ({ files: { '/work/appsettings.json': content } })
  mistakes(file({ Api: { UpsertOnPost: true } }), /Api\.UpsertOnPost; did you mean Api\.UpsertOnPut\?/)
  mistakes(
    file({ Api: { Colour: true } }),
    /Api\.Colour; there are Api\.ReadOnly, Api\.UseResultObject, Api\.UpsertOnPut, .*Api\.Schemas/,
  )
  mistakes(file({ api: { UpsertOnPut: true } }), /"api".*Api/)
  mistakes(file({ Api: { upsertOnPut: true } }), /Api\.upsertOnPut/)
  mistakes(file({ Api: true }), /Api/)
  mistakes(file([]), /root/)
  mistakes(file('{"Api": '), /appsettings\.json.*JSON/)
  mistakes(file(''), /appsettings\.json.*JSON/)
})

test('a settings file may have comments and trailing commas, and errors keep their places', () => {
  const text = '{\n  // "Limits": {"PageSize": 1},\n  "Http": {"BasePath": "/a//b"}, /* no\n limits */\n'
  const withComments = (end: string): Given => ({ files: { '/work/appsettings.json': text + end } })
  mistakes(withComments('}'), /Http\.BasePath.*"\/a\/\/b"/)
  const log = '"Log": {"Level": "warn",},}'
  assert.equal(settings({ files: { '/work/appsettings.json': `{/**/${log}//` } }).log.level, 'warn')
  mistakes(withComments('"Log": {"Level": warn}}'), /line 5, column 18/)
  mistakes({ files: { '/work/appsettings.json': '{} /* without an end' } }, /not well-formed JSON/)
  const schema = { '/work/schema.json': '{"type": "object", /* of things */}' }
  assert.deepEqual(settings({ argv: ['--Api.Schemas.a', 'schema.json'], files: schema }).api.schemas, {
    a: { type: 'object' },
  })
  assert.deepEqual(
    settings({ argv: ['--Api.Schemas.a', 'any.json'], files: { '/work/any.json': 'true' } }).api.schemas,
    {
      a: true,
    },
  )
  mistakes(
    { argv: ['--Api.Schemas.a', 'no.json'], files: { '/work/no.json': '[]' } },
    /no\.json: a JSON Schema is an object/,
  )
})

test('a member that an object of the settings file has twice is a mistake', () => {
  const file = (text: string): Given => ({ files: { '/work/appsettings.json': text } })
  mistakes(
    file(
      '{"Authentication": {"Enabled": true, "ApiKey": "k", "AuthenticationType": "apikey"},\n "Authentication": {}}',
    ),
    /line 2, column 2: "Authentication" is given twice in one object/,
  )
  mistakes(file('{"Log": {"Level": "info", /**/ "Level": "debug"}}'), /column 32: "Level" is given twice/)
  assert.equal(settings(file('{"Log": {"Level": "warn"}, "Collections": {"Log": {}}}')).log.level, 'warn')
  const files = { '/work/schema.json': '{"type": "object", "type": "array"}' }
  mistakes(
    { argv: ['--Api.Schemas.a', 'schema.json'], files },
    /schema\.json: line 1, column 20: "type" is given twice/,
  )
})

test('the settings file of FakeServer is accepted, with a warning for each section that has no effect', () => {
  const ignored = { Caching: { ETag: { Enabled: true } }, CustomResponse: { Enabled: true, Scripts: [] } }
  const others = { Jobs: { DelayMs: 1 }, Logging: { LogLevel: { Default: 'Error' } }, Serilog: {}, AllowedHosts: '*' }
  const files = {
    '/work/appsettings.json': { ...ignored, ...others, DataStore: { IdField: 'key', EagerDataReload: true } },
  }
  const { common, dataStore, warnings } = settings({ files })
  assert.deepEqual([common.eagerDataReload, dataStore.idField], [true, 'key'])
  assert.deepEqual(
    warnings.map((warning) => /json: (\w+) is ignored\. [A-Z]/.exec(warning)?.[1]),
    ['Caching', 'CustomResponse', 'Jobs', 'Logging', 'Serilog', 'AllowedHosts'],
  )
  assert.equal(settings({ env: { DataStore__EagerDataReload: 'true' } }).common.eagerDataReload, true)
  const both = { Common: { EagerDataReload: true }, DataStore: { EagerDataReload: false } }
  mistakes({ files: { '/work/appsettings.json': both } }, /Common\.EagerDataReload is given twice/)
  const variables = { Common__EagerDataReload: 'true', DataStore__EagerDataReload: 'false' }
  mistakes({ env: variables }, /environment variable Common__EagerDataReload is given twice/)
  mistakes({ files: { '/work/appsettings.json': { Serilogs: {} } } }, /unknown section "Serilogs"/)
})

test('a missing settings file is a mistake when it was given', () => {
  mistakes({ argv: ['--settings', 'nowhere.json'], files: { [PACKAGED]: {} } }, /\/work\/nowhere\.json/)
})

test('a variable that resembles a setting is reported as misspelt, in every section', () => {
  mistakes(
    { env: { Authentification__Enabled: 'true' } },
    /Authentification__Enabled.*did you mean Authentication__Enabled\?/,
  )
  mistakes({ env: { Apis__UpsertOnPut: 'true' } }, /did you mean Api__UpsertOnPut\?/)
  mistakes({ env: { api__upsertOnPut: 'true' } }, /did you mean Api__UpsertOnPut\?/)
  mistakes({ env: { LIMITS__PageSize: '1' } }, /did you mean Limits__PageSize\?/)
})

test('variables of known sections are checked, others are ignored', () => {
  mistakes({ env: { Api__Upsert: 'true' } }, /Api__Upsert\b/)
  mistakes({ env: { Limits__: '1' } }, /Limits__/)
  settings({
    env: { App__Name: 'x', Logging__LogLevel__Default: 'x', Api_UpsertOnPut: 'x', Api: 'x', Other__PageSize: 'x' },
  })
})

test('a schema is given in the file, or as a path', () => {
  const schema = { type: 'object', required: ['name'] }
  const files = {
    '/work/appsettings.json': { Api: { Schemas: { inline: schema, byPath: 'schema.json', any: true } } },
    '/work/schema.json': schema,
  }
  const env = { Api__Schemas__sent: '/work/schema.json' }
  const argv = ['--Api.Schemas.things', 'schema.json', '--Api.Schemas.a.b=schema.json']
  assert.deepEqual(settings({ files, env, argv }).api.schemas, {
    inline: schema,
    byPath: schema,
    any: true,
    sent: schema,
    things: schema,
    'a.b': schema,
  })
})

test('a collection may have the name of an inherited member', () => {
  const files = {
    '/work/appsettings.json': '{"Api": {"Schemas": {"__proto__": {"required": ["a"]}, "toString": true}}}',
  }
  assert.deepEqual(Object.entries(settings({ files }).api.schemas), [
    ['__proto__', { required: ['a'] }],
    ['toString', true],
  ])
})

test('an unreadable schema is a mistake', () => {
  const file = (value: unknown): Given => ({
    files: { '/work/appsettings.json': { Api: { Schemas: value } }, '/work/bad.json': '{' },
  })
  mistakes({ argv: ['--Api.Schemas.things', 'nowhere.json'] }, /Api\.Schemas\.things.*\/work\/nowhere\.json/)
  mistakes({ argv: ['--Api.Schemas.things'] }, /Api\.Schemas\.things needs a value/)
  mistakes(file({ things: 'nowhere.json' }), /Api\.Schemas\.things.*\/work\/nowhere\.json/)
  mistakes(file({ things: 'bad.json' }), /\/work\/bad\.json.*JSON/)
  mistakes(file({ things: 5 }), /Api\.Schemas\.things/)
  mistakes(file([]), /Api\.Schemas/)
})

test('all mistakes are reported together', () => {
  mistakes(
    {
      argv: ['--prot=1', '--file', 'a', '--file', 'b', '--urls', 'nowhere', '--Limits.PageSize', 'many', 'stray'],
      env: { Api__UpsertOnPut: 'maybe', Api__Nothing: '1' },
      files: { '/work/appsettings.json': { Common: { Eager: true }, Other: {}, Limits: { BodyBytes: 'big' } } },
    },
    /--prot/,
    /--file is given more than once/,
    /--urls/,
    /Limits\.PageSize/,
    /given twice: "stray"/,
    /Api__UpsertOnPut must be true or false, not "maybe"/,
    /Api__Nothing/,
    /Common\.Eager/,
    /"Other"/,
    /Limits\.BodyBytes/,
  )
})

test('--help and --version exclude other flags', () => {
  for (const argv of [['--help'], ['-h'], ['--file', 'x', '--help'], ['-h', '--version']]) {
    assert.deepEqual(read({ argv }), { type: 'help', command: '' })
  }
  for (const argv of [['--version'], ['-v']]) assert.deepEqual(read({ argv }), { type: 'version' })
  for (const command of Object.keys(commandsWith(CLUSTER)).filter((name) => name !== '')) {
    assert.deepEqual(read({ argv: [command, '--help'] }), { type: 'help', command })
  }
  mistakes({ argv: ['--help', '--prot=1'] }, /--prot/)
})

test('--help lists every flag and every setting with its default', () => {
  const help = helpText('', CLUSTER)
  for (const flag of ['--file', '--urls', '--journal', '--settings', '--accept-journal', '--help', '--version']) {
    assert.ok(help.includes(flag), flag)
  }
  for (const [key, otherwise] of KEYS) {
    const line = help.split('\n').find((one) => one.includes(`--${key} `))
    assert.ok(line?.includes(String(otherwise)), key)
  }
  assert.ok(help.includes('--Api.Schemas.<collection>'))
})

test('--help of a command lists its flags and no other', () => {
  for (const [name, command] of Object.entries(commandsWith(CLUSTER))) {
    const lines = helpText(name as CommandName, CLUSTER).split('\n')
    const flags = lines.flatMap((line) => /^ {2}(?:-\w, )?--([a-z][a-zA-Z-]*)( |$)/.exec(line)?.[1] ?? [])
    assert.deepEqual(flags, Object.keys(command.flags), name)
  }
})

test('the data file may be given as an argument, once', () => {
  assert.equal(settings({ argv: ['db.json'] }).file, '/work/db.json')
  assert.equal(settings({ argv: ['db.json'] }).isSample, false)
  assert.equal(settings({ argv: ['--watch', '007', '--port', '1'] }).file, '/work/007')
  assert.equal(settings({ argv: ['--', '--odd.json'] }).file, '/work/--odd.json')
  mistakes({ argv: ['db.json', '--file', 'db.json'] }, /given twice: "db\.json", and --file/)
  mistakes({ argv: ['verfy'] }, /no command "verfy"; did you mean verify\?.*\.\/verfy/)
  mistakes({ argv: ['help'] }, /did you mean --help\?/)
  mistakes({ argv: ['--port', '1', 'init'] }, /The command init comes before all flags/)
  mistakes({ argv: ['http://example.org/db.json'] }, /must be a path, not a URL/)
  assert.equal(settings({ argv: ['verfy'], files: { '/work/verfy': {} } }).file, '/work/verfy')
  assert.equal(settings({ argv: ['./verfy'] }).file, '/work/./verfy')
})

test('--host and --port make one address, in place of --urls', () => {
  const urls = (...argv: string[]) => settings({ argv }).urls
  assert.deepEqual(urls('--port', '3000'), [{ host: 'localhost', port: 3000 }])
  assert.deepEqual(urls('-p', '0'), [{ host: 'localhost', port: 0 }])
  assert.deepEqual(urls('--host', '0.0.0.0'), [{ host: '0.0.0.0', port: 57602 }])
  assert.deepEqual(urls('-H', '*', '-p3000'), [{ host: undefined, port: 3000 }])
  assert.deepEqual(urls('--host', '::1', '--port=1'), [{ host: '::1', port: 1 }])
  assert.deepEqual(urls('--host', '[::]', '--port', '1'), [{ host: '::', port: 1 }])
  for (const port of ['65536', 'x', '1.5', '0x10']) mistakes({ argv: ['--port', port] }, /--port must be a number/)
  for (const host of ['a b', 'http://a', 'a:80', 'a/b', 'a;b', 'user@a', '?']) {
    mistakes({ argv: ['--host', host] }, /--host must be a host name/)
  }
  mistakes({ argv: ['-p', '1', '--urls', 'http://localhost:1'] }, /either --urls, or --host and --port/)
})

test('some flags are short for a setting, and exclude it', () => {
  const { common, api, http } = settings({ argv: ['-w', '--read-only', '--static', 'public', 'db.json'] })
  assert.deepEqual([common.eagerDataReload, api.readOnly, http.static], [true, true, 'public'])
  assert.equal(settings().http.static, '')
  assert.equal(settings({ env: { Http__Static: 'pages' }, argv: ['-s', 'public'] }).http.static, 'public')
  mistakes({ argv: ['--watch', '--Common.EagerDataReload', 'true'] }, /--watch stands for --Common\.EagerDataReload/)
  mistakes({ argv: ['-w=yes'] }, /--watch has no value/)
  const delay = settings({ argv: ['-d', '50', '-i', '_id', '--foreignKeySuffix', '_id'] })
  assert.deepEqual(delay.simulation.delay, {
    enabled: true,
    methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    minMs: 50,
    maxMs: 50,
  })
  assert.deepEqual([delay.dataStore.idField, delay.api.foreignKeySuffix], ['_id', '_id'])
  mistakes({ argv: ['--delay', '30001'] }, /^The flag --delay must be an integer from 0 to 30000, not "?30001"?\.$/)
})

test('--json-server changes the defaults of other settings, which go first when they are given', () => {
  const { api, common, edits } = settings({ argv: ['--json-server', '--watch', 'db.json'] })
  assert.deepEqual(
    [api.compatibility, api.clientIdsOnPost, api.reset, common.eagerDataReload, edits.mode],
    ['json-server', true, true, true, 'replace'],
  )
  const own = settings({ argv: ['--json-server'], env: { DataFile__Edits: 'merge', Api__ClientIdsOnPost: 'false' } })
  assert.deepEqual([own.edits.mode, own.api.clientIdsOnPost], ['merge', false])
  assert.deepEqual(settings({ argv: ['--json-server'] }).urls, [{ host: 'localhost', port: 3000 }])
  assert.deepEqual(settings({ argv: ['--json-server', '--host', '127.0.0.1'] }).urls, [
    { host: '127.0.0.1', port: 3000 },
  ])
  assert.deepEqual(settings({ argv: ['--json-server', '-p', '0'] }).urls, [{ host: 'localhost', port: 0 }])
  assert.equal(settings({ argv: ['--json-server', '--urls', 'http://localhost:81'] }).urls[0]?.port, 81)
  const configured = settings({ env: { Api__Compatibility: 'json-server' } })
  assert.deepEqual(
    [configured.urls, configured.staticDefault, configured.common.eagerDataReload],
    [[{ host: 'localhost', port: 3000 }], 'public', true],
  )
  assert.equal(settings({ argv: ['--json-server', '--Common.EagerDataReload', 'false'] }).common.eagerDataReload, false)
  const plain = settings({ argv: ['db.json'] })
  assert.equal(plain.staticDefault, 'wwwroot')
  assert.deepEqual([plain.edits.mode, plain.api.clientIdsOnPost, plain.api.reset], ['merge', false, false])
})

test('a misspelt flag is rejected with a suggestion', () => {
  for (const [wrong, right] of [
    ['--prot=1', '--port'],
    ['--hots', '--host'],
    ['--readonly', '--read-only'],
    ['--wach', '--watch'],
    ['--api.upsertOnPut=true', '--Api.UpsertOnPut'],
    ['--Limits.PagesSize=1', '--Limits.PageSize'],
    ['--Authentification.Enabled=true', '--Authentication.Enabled'],
    ['--serve=build', '--static'],
  ] as const) {
    mistakes({ argv: [wrong] }, new RegExp(`^Unknown flag ${wrong.split('=')[0]}; did you mean ${right}\\?$`))
  }
  mistakes({ argv: ['verify', '--jsno'] }, /did you mean --json\?/)
  mistakes({ argv: ['--unlike', 'a'] }, /recollect --help lists/)
  mistakes({ argv: ['backup', '--unknown'] }, /recollect backup --help lists/, /needs --to/)
})

test('a negative number is the value of the flag before it', () => {
  mistakes({ argv: ['--port', '-1'] }, /--port must be .*not "?-1"?\.$/)
  mistakes({ argv: ['--Limits.PageSize', '-1'] }, /--Limits\.PageSize must be .*not "?-1"?\.$/)
  mistakes({ argv: ['replay', '--from', '-1'] }, /^--from must be a position or an ISO 8601 date-time, not "-1"\.$/)
  mistakes({ argv: ['--watch', '-1'] }, /^Unknown flag -1; /)
})

test('a flag that only json-server has is rejected with the one to use instead, and with the document', () => {
  for (const [flag, here] of [
    ['--ro', '--read-only'],
    ['--no-cors', '--Cors.Origins'],
    ['-q', '--Log.Level'],
    ['--middlewares=./m.js', 'no such flag'],
  ] as const) {
    const found = new RegExp(
      `^${flag.split('=')[0]} is a flag of json-server.* ${here}; see docs/migrate-from-json-server\\.md\\.$`,
    )
    mistakes({ argv: [flag] }, found)
  }
  mistakes({ argv: ['verify', '--quiet'] }, /^Unknown flag --quiet; recollect verify --help lists/)
})

test('settings that differ from the defaults are listed without secrets', () => {
  const users = '[{"Username": "anna", "Password": "hers, which is long"}]'
  const { values } = settings({
    env: { Limits__PageSize: '7', Limits__BodyBytes: '1048576' },
    argv: [
      ...['--Authentication.Users', users, '--Authentication.ApiKey', 'secret'],
      ...['--Journal.Servers', 'nats://me:secret@a:4222,me:secret@b', '--Api.Schemas.things', 's.json'],
    ],
    files: { '/work/s.json': { title: 'secret' } },
  })
  assert.deepEqual(values.nonDefaults(), {
    'Authentication.Users': '***',
    'Authentication.ApiKey': '***',
    'Limits.PageSize': 7,
    'Journal.Servers': ['nats://***@a:4222', '***@b'],
    'Api.Schemas': ['things'],
  })
})

test('settings are deeply frozen', () => {
  const files = { '/work/appsettings.json': { Api: { Schemas: { things: { properties: { a: {} } } } } } }
  const isFrozen = (value: unknown): boolean =>
    typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(isFrozen))
  assert.ok(isFrozen(settings({ files })))
  assert.throws(() => Object.assign(settings().limits, { pageSize: 1 }), TypeError)
})
