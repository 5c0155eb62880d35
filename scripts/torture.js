// The fault tests at full size, one at a time: `npm run torture -- kills`. Without a name: what there is.
// A size is an environment variable; one that is set already is kept, so KILLS=100 npm run torture -- kills works too.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const RUNS = {
  kills: {
    about: 'SIGKILL at random moments under 32 writers: nothing acknowledged lost or changed, nothing invented',
    file: 'test/faults/kills.test.ts',
    test: '^killed',
    size: { KILLS: 2000 },
  },
  terminations: {
    about: 'SIGTERM under 32 writers: what was accepted is answered, what was not answered did not happen',
    file: 'test/faults/kills.test.ts',
    test: '^SIGTERM',
    size: { TERMINATIONS: 100 },
  },
  owners: {
    about: 'two processes race for one journal; an owner is killed and another started at once',
    file: 'test/faults/owners.test.ts',
    size: { RACES: 1000, RESTARTS: 100 },
  },
  bits: {
    about: 'every bit of a journal flipped, every sector zeroed, every record moved, by the reader',
    file: 'test/faults/bits.test.ts',
    test: '^(any|zeroed|records)',
    size: { RECORDS: 1000, WALKS: 10_000 },
  },
  starts: {
    about: 'the program started on a damaged journal: refused with the place, not a byte changed',
    file: 'test/faults/bits.test.ts',
    test: '^a ',
    size: { RECORDS: 1000, STARTS: 1000 },
  },
  disk: {
    about: 'a real disk filled up and freed again, with kills while it is full; needs root',
    file: 'test/faults/disks.test.ts',
    test: '^on a full disk',
    size: { DISK_ROUNDS: 50 },
  },
  syncs: {
    about: 'a real durable write fails; needs strace',
    file: 'test/faults/disks.test.ts',
    test: 'sync',
    size: { SYNCS: 100 },
  },
  power: {
    about:
      'stopped at every call to a simulated disk; power lost at random ones, with any subset of what was not synced',
    file: 'test/faults/stops.test.ts',
    size: { STOPS_OPERATIONS: 200, POWER_SEEDS: 100_000 },
  },
  edits: {
    about: 'killed while the data file is written and edited by hand: every edit taken in once, none invented',
    file: 'test/projections/data-file-kills.test.ts',
    size: { DATA_FILE_KILLS: 500 },
  },
  large: {
    about: 'stopped in the middle of writes of very many events: all of one or nothing, an edit taken in once',
    file: 'test/faults/large-write.test.ts',
    test: '^stopped',
    size: { LARGE_WRITE_STOPS: 1000 },
  },
  cluster: {
    about:
      'nats-servers and nodes of a cluster killed at random: nothing acknowledged lost or doubled; needs nats-server',
    file: 'test/cluster/kills.test.ts',
    size: { CLUSTER_KILL_SECONDS: 600 },
  },
  races: {
    about: 'If-Match writers at the three nodes of a cluster race for one item, with failovers; needs nats-server',
    file: 'test/cluster/cuts.test.ts',
    test: '^of any number',
    size: { CLUSTER_RACE_ROUNDS: 100, CLUSTER_RACERS: 1000 },
  },
  cuts: {
    about: 'a decider that is cut off from NATS, of what it sends, of what is answered, or of both; needs nats-server',
    file: 'test/cluster/cuts.test.ts',
    test: '^a decider that is cut off',
    size: { CLUSTER_LOSSES: 'both,sent,answered' },
  },
  'cluster-histories': {
    about: 'histories of concurrent clients at three nodes, through failovers, explained one by one; needs nats-server',
    file: 'test/cluster/linearizability.test.ts',
    size: { CLUSTER_HISTORIES: 1000 },
  },
  'any-node': {
    about:
      'the tests of the main job and the model test against three nodes that take the requests by turns; needs nats-server',
    file: 'test/cluster/any-node.test.ts',
    size: {
      CLUSTER_FILES: [
        'ids,methods,bodies,conditions,patches,retries,problems,positions,waiting,query,as-of,past,restore',
        'events,event-stream,event-following,openapi,hot-path,statics,verify,metrics',
        'test/sockets/notifications.test.ts,test/sockets/replay.test.ts,test/sockets/subscriptions.test.ts',
        'test/model/model.test.ts',
      ].join(','),
      MODEL_REQUESTS: 5000,
    },
  },
  histories: {
    about: 'histories of concurrent clients, through full disks, crashes and power losses, explained one by one',
    file: 'test/linearizability/linearizability.test.ts',
    size: { LINEARIZABILITY_HISTORIES: 10_000 },
  },
  indexes: {
    about:
      'random queries over random items, written to between any two slices: by indexes as by looking at every item',
    file: 'test/projections/query/indexes.test.ts',
    size: { INDEXES_TIMES: 125 },
  },
  queries: {
    about: 'random queries of random items, paged through by next: as a naive model answers them',
    file: 'test/projections/query/model.test.ts',
    size: { QUERY_RUNS: 20_000 },
  },
  fleet: {
    about: 'fifty sensors that report for a minute: each reading kept once, told once, there after kill -9',
    file: 'test/fleet.test.ts',
    test: '^the readings of a fleet are',
    size: { FLEET_SECONDS: 60 },
  },
  fuzz: {
    about: "requests made of the server's own description, with things wrong in them: no 500, nothing undocumented",
    file: 'test/security/fuzz.test.ts',
    size: { FUZZ_REQUESTS: 100_000 },
  },
  past: {
    about:
      'what was answered is answered again asOf its position, and brought back by restoring; under every kind of write',
    file: 'test/http/past.test.ts',
    size: { PAST_EVENTS: 50_000, PAST_QUERIES: 1000, PAST_RESTORES: 10 },
  },
  lists: {
    about: 'clients with random queries, cut off at random, while the server is killed and started again under load',
    file: 'test/sockets/lists.test.ts',
    size: { LIST_CLIENTS: 200, LIST_KILLS: 10 },
  },
  readers: {
    about: 'readers of every kind that stop reading cost the server no memory, catch up, or are let go',
    file: 'test/sockets/stalled-readers.test.ts',
    size: { STALLED_EVENTS: 60_000 },
  },
  subscriptions: {
    about:
      'subscriptions against the states that the events make, at every position, with lags, resets and lost connections',
    file: 'test/sockets/subscriptions-model.test.ts',
    size: { SUBSCRIPTION_SEEDS: 5000 },
  },
  client: {
    about:
      "clients' lists against fresh GETs, now and at the positions that they showed, through cut lines and restarts",
    file: 'test/client/lists.test.ts',
    size: { CLIENT_WRITES: 20_000 },
  },
  pages: {
    about: 'the journal page on a million events: few rows in the document, and how long its tasks were',
    file: 'test/browser/journal.test.ts',
    test: '^the list of',
    size: { PAGES_EVENTS: 1_000_000 },
  },
  model: {
    about: 'random requests against a naive model, through restarts and edits by hand',
    file: 'test/model/model.test.ts',
    size: { MODEL_REQUESTS: 1_000_000 },
  },
}

const [name, ...rest] = process.argv.slice(2)
if (name === undefined) {
  process.stdout.write('npm run torture -- <name>, with\n\n')
  for (const [known, { about, size }] of Object.entries(RUNS)) {
    const sizes = Object.entries(size).map(([variable, value]) => `${variable}=${value}`)
    process.stdout.write(`  ${known.padEnd(18)} ${about} (${sizes.join(', ')})\n`)
  }
} else if (!Object.hasOwn(RUNS, name) || rest.length > 0) {
  process.stderr.write(`torture takes one of ${Object.keys(RUNS).join(', ')}\n`)
  process.exitCode = 2
} else {
  process.exitCode = run(RUNS[name])
}

function run({ file, test, size }) {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const env = {
    ...Object.fromEntries(Object.entries(size).map(([key, value]) => [key, String(value)])),
    ...process.env,
  }
  const built = spawnSync(process.execPath, ['scripts/build.js'], { cwd: root, stdio: 'inherit' })
  if (built.status !== 0) return built.status ?? 1
  const pattern = test === undefined ? [] : ['--test-name-pattern', test]
  const flags = ['--import', 'tsx', '--test', '--test-reporter=spec', ...pattern, file]
  return spawnSync(process.execPath, flags, { cwd: root, stdio: 'inherit', env }).status ?? 1
}
