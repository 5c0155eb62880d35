// The sizes of tests beyond those of the quick suite, which stand in the test files themselves: `full` is what
// `npm run torture -- <name>` runs for hours, `all` what `npm run test:all` runs within an hour. A size is an
// environment variable; one that is set already is kept, so KILLS=100 npm run torture -- kills works too.
export const RUNS = {
  kills: {
    about: 'SIGKILL at random moments under 32 writers: nothing acknowledged lost or changed, nothing invented',
    file: 'test/faults/kills.long.test.ts',
    test: '^killed',
    all: { KILLS: 20 },
    full: { KILLS: 2000 },
  },
  terminations: {
    about: 'SIGTERM under 32 writers: what was accepted is answered, what was not answered did not happen',
    file: 'test/faults/kills.long.test.ts',
    test: '^SIGTERM',
    all: { TERMINATIONS: 10 },
    full: { TERMINATIONS: 100 },
  },
  retention: {
    about: 'random late, corrected, deleted and expired readings: equal to a naive model, now and at any position',
    file: 'test/engine/retention-model.long.test.ts',
    all: { RETENTION_STEPS: 600 },
    full: { RETENTION_STEPS: 5000 },
  },
  'expiry-kills': {
    about: 'SIGKILL at random moments while readings expire: nothing acknowledged is lost, nothing comes back',
    file: 'test/faults/expiry-kills.long.test.ts',
    all: { EXPIRY_KILLS: 10 },
    full: { EXPIRY_KILLS: 300 },
  },
  owners: {
    about: 'two processes race for one journal; an owner is killed and another started at once',
    file: 'test/faults/owners.long.test.ts',
    all: { RACES: 20, RESTARTS: 10 },
    full: { RACES: 1000, RESTARTS: 100 },
  },
  bits: {
    about: 'every bit of a journal flipped, every sector zeroed, every record moved, by the reader',
    file: 'test/faults/bits.long.test.ts',
    test: '^(any|zeroed|records)',
    all: { RECORDS: 60, WALKS: 1000 },
    full: { RECORDS: 1000, WALKS: 10_000 },
  },
  starts: {
    about: 'the program started on a damaged journal: refused with the place, not a byte changed',
    file: 'test/faults/bits.long.test.ts',
    test: '^a ',
    all: { STARTS: 30 },
    full: { RECORDS: 1000, STARTS: 1000 },
  },
  disk: {
    about: 'a real disk filled up and freed again, with kills while it is full; needs root',
    file: 'test/faults/full-disk.long.test.ts',
    test: '^on a full disk',
    all: { DISK_ROUNDS: 3 },
    full: { DISK_ROUNDS: 50 },
  },
  'store-kills': {
    about:
      'killed while large edits are put into the store, while it is built and while items are packed: all or nothing of each is served',
    file: 'test/store/kills.long.test.ts',
    full: { STORE_KILLS: 200, STORE_KILL_ITEMS: 20_000 },
  },
  'store-damage': {
    about: 'pages of the store overwritten while the server is stopped, and forgotten by the medium: never served',
    file: 'test/store/damage.long.test.ts',
    all: { STORE_DAMAGES: 12 },
    full: { STORE_DAMAGES: 2000 },
  },
  'store-cuts': {
    about:
      'the file of the store cut at random lengths: set aside before it is opened; its first pages damaged: repaired',
    file: 'test/store/damage.test.ts',
    test: '^(a truncated file|damage of the first pages)',
    all: { STORE_CUTS: 300 },
    full: { STORE_CUTS: 20_000 },
  },
  'store-power': {
    about:
      'power lost at any moment, with any part of what was not synced, and kills: the store is at its recovery point',
    file: 'test/store/power-loss.test.ts',
    test: '^a power loss at any moment',
    all: { STORE_POWER_LOSSES: 200 },
    full: { STORE_POWER_LOSSES: 5000 },
  },
  compactions: {
    about: 'killed while the store is compacted under writes: nothing lost, and no rebuild',
    file: 'test/store/compaction.long.test.ts',
    full: { COMPACTION_KILLS: 300, COMPACTION_ITEMS: 100_000 },
  },
  'store-disk': {
    about: 'the disk of the store filled up and freed again while the journal has room; needs root',
    file: 'test/store/full-disk.long.test.ts',
    test: '^while the disk of the store',
    full: { STORE_DISK_ROUNDS: 200 },
  },
  syncs: {
    about: 'a real durable write fails; needs strace',
    file: 'test/faults/syncs.test.ts',
    test: '^a failed durable write',
    all: { SYNCS: 5 },
    full: { SYNCS: 100 },
  },
  'failed-syncs': {
    about: 'each sync of a workload fails, one after the other, on a simulated disk: nothing is acknowledged after it',
    file: 'test/faults/errors.test.ts',
    test: '^a sync of the journal',
    all: { FAILED_SYNCS: 80 },
    full: { FAILED_SYNCS: 80 },
  },
  'partial-writes': {
    about: 'power lost during a write of the journal of which a part is on the disk: all of the write or nothing',
    file: 'test/faults/errors.test.ts',
    test: '^after a power loss during a partial write',
    all: { PARTIAL_WRITES: 100 },
    full: { PARTIAL_WRITES: 5000 },
  },
  'lost-syncs': {
    about: 'power lost on a disk that ignores syncs: opened or rejected, damage never served',
    file: 'test/faults/errors.test.ts',
    test: '^on a disk that ignores syncs',
    all: { LOST_SYNCS: 150 },
    full: { LOST_SYNCS: 5000 },
  },
  'fast-front': {
    about: 'each route, method, credentials, parameter and body, by the fast front and by Koa: the same bytes',
    file: 'test/http/fast-front.test.ts',
    all: { FAST_FRONT_SHARE: 1 },
    full: { FAST_FRONT_SHARE: 1 },
  },
  power: {
    about:
      'stopped at every call to a simulated disk; power lost at random ones, with any subset of what was not synced',
    file: 'test/faults/stops.long.test.ts',
    all: { STOPS_OPERATIONS: 60, POWER_SEEDS: 500, POWER_ROUNDS: 20 },
    full: { STOPS_OPERATIONS: 200, POWER_SEEDS: 100_000, POWER_ROUNDS: 20 },
  },
  edits: {
    about: 'killed while the data file is written and edited by hand: every edit taken in once, none invented',
    file: 'test/data-file/merge.long.test.ts',
    test: '^killed at any moment',
    all: { DATA_FILE_KILLS: 15 },
    full: { DATA_FILE_KILLS: 500 },
  },
  stale: {
    about: 'editors that opened the data file at any time save it: no write of others is taken back',
    file: 'test/data-file/stale.long.test.ts',
    test: '^no acknowledged',
    all: { STALE_EDITS: 100 },
    full: { STALE_EDITS: 5000 },
  },
  merges: {
    about: 'edits by hand and crashes at random moments: no edit overwritten, no write taken back, none invented',
    file: 'test/data-file/merge.long.test.ts',
    test: '^through any crash',
    all: { MERGE_ROUNDS: 400 },
    full: { MERGE_ROUNDS: 20_000 },
  },
  imports: {
    about: 'a first import in parts, killed again and again: every item there once',
    file: 'test/data-file/large.long.test.ts',
    test: '^the first items',
    all: { IMPORT_KILLS: 5 },
    full: { IMPORT_KILLS: 100 },
  },
  large: {
    about: 'stopped in the middle of writes of very many events: all of one or nothing, an edit taken in once',
    file: 'test/faults/large-write.long.test.ts',
    test: '^stopped',
    all: { LARGE_WRITE_STOPS: 20 },
    full: { LARGE_WRITE_STOPS: 1000 },
  },
  cluster: {
    about:
      'nats-servers and nodes of a cluster killed at random: nothing acknowledged lost or doubled; needs nats-server',
    file: 'test/cluster/kills.long.test.ts',
    full: { CLUSTER_KILL_SECONDS: 600 },
  },
  races: {
    about: 'If-Match writers at the three nodes of a cluster race for one item, with failovers; needs nats-server',
    file: 'test/cluster/cuts.long.test.ts',
    test: '^exactly one of many writers',
    full: { CLUSTER_RACE_ROUNDS: 100, CLUSTER_RACERS: 1000 },
  },
  cuts: {
    about: 'a leader that is cut off from NATS: its requests, its responses, or both are lost; needs nats-server',
    file: 'test/cluster/cuts.long.test.ts',
    test: '^a leader that is cut off',
    full: { CLUSTER_LOSSES: 'both,sent,answered' },
  },
  'cluster-histories': {
    about: 'histories of concurrent clients at three nodes, through failovers, explained one by one; needs nats-server',
    file: 'test/cluster/linearizability.long.test.ts',
    full: { CLUSTER_HISTORIES: 1000 },
  },
  'any-node': {
    about:
      'the tests of the main job and the model test against three nodes that take the requests by turns; needs nats-server',
    file: 'test/cluster/any-node.long.test.ts',
    full: {
      CLUSTER_FILES: [
        'ids,routes,bodies,conditions,patches,retries,problems,positions,query,as-of,restore',
        'events,event-stream,openapi,fast-front,statics,verify,metrics',
        'test/sockets/notifications.test.ts,test/sockets/replay.test.ts,test/sockets/subscriptions.test.ts',
        'test/model/model.test.ts',
      ].join(','),
      CLUSTER_MODEL_REQUESTS: 5000,
    },
  },
  histories: {
    about: 'histories of concurrent clients, through full disks, crashes and power losses, explained one by one',
    file: 'test/linearizability/linearizability.long.test.ts',
    all: { LINEARIZABILITY_HISTORIES: 500 },
    full: { LINEARIZABILITY_HISTORIES: 10_000 },
  },
  indexes: {
    about:
      'random queries over random items, written to between any two slices: by indexes as by looking at every item',
    file: 'test/query/queries.test.ts',
    all: { QUERIES_TIMES: 12 },
    full: { QUERIES_TIMES: 750 },
  },
  former: {
    about: 'random queries as of random positions of a collection that is written to, by indexes: as it was then',
    file: 'test/projections/past.test.ts',
    test: '^equals what it was',
    all: { PAST_TIMES: 20 },
    full: { PAST_TIMES: 1000 },
  },
  trees: {
    about:
      'random keys put into a tree of the store and removed, through failures: each by its number, as of any position',
    file: 'test/store/tree.test.ts',
    all: { TREE_RUNS: 12 },
    full: { TREE_RUNS: 400 },
  },
  collections: {
    about: 'random events in a store, through failures, large writes and restarts: as a naive model has them',
    file: 'test/collections/collection-model.test.ts',
    test: '^collections',
    all: { COLLECTION_RUNS: 10 },
    full: { COLLECTION_RUNS: 500, COLLECTION_WRITES: 200 },
  },
  versions: {
    about: 'rows of a store, pinned and released at random: each pinned position reads as it was',
    file: 'test/store/store.test.ts',
    test: '^versions',
    all: { STORE_RUNS: 200 },
    full: { STORE_RUNS: 20_000 },
  },
  overlay: {
    about: 'random writes above a collection of which any part is durable: as one that has them all',
    file: 'test/collections/overlay.test.ts',
    test: '^an overlay',
    all: { OVERLAY_ROUNDS: 300 },
    full: { OVERLAY_ROUNDS: 10_000 },
  },
  queries: {
    about: 'random queries of random items, paged through by next: as a naive model answers them',
    file: 'test/query/model.test.ts',
    all: { QUERY_RUNS: 2000 },
    full: { QUERY_RUNS: 20_000 },
  },
  fleet: {
    about: 'fifty sensors that report for a minute: each reading kept once, told once, there after kill -9',
    file: 'test/server/fleet.long.test.ts',
    test: '^the readings of a fleet',
    all: { FLEET_SECONDS: 10 },
    full: { FLEET_SECONDS: 60 },
  },
  access: {
    about: 'every route by every method with every kind of credentials, for each scheme by itself and all together',
    file: 'test/security/access-table.long.test.ts',
    all: { ACCESS_TABLE: 'each' },
    full: { ACCESS_TABLE: 'each' },
  },
  fuzz: {
    about: "requests made of the server's own description, with things wrong in them: no 500, nothing undocumented",
    file: 'test/security/fuzz.long.test.ts',
    all: { FUZZ_REQUESTS: 5000 },
    full: { FUZZ_REQUESTS: 100_000 },
  },
  costs: {
    about: 'random requests of random shapes and sizes: prints how long each blocks the event loop, and how that grows',
    file: 'test/security/costs.long.test.ts',
    full: { COSTS_SECONDS: 3600, COSTS_GROWTH: 'all' },
  },
  memory: {
    about: 'clients of every kind that attack at once, and do not read: no heap is exhausted, and others are served',
    file: 'test/security/memory.long.test.ts',
    full: { MEMORY_HEAPS: '128,256,1024', MEMORY_ATTACKS: '.', MEMORY_ROUNDS: 2, MEMORY_PART: 1, MEMORY_SECONDS: 1800 },
  },
  restores: {
    about: 'restored to random positions and back: every collection as asOf says it was',
    file: 'test/http/restore.test.ts',
    test: 'to a position',
    all: { RESTORE_ROUNDS: 12 },
    full: { RESTORE_ROUNDS: 1000 },
  },
  past: {
    about:
      'what was answered is answered again asOf its position, and brought back by restoring; under every kind of write',
    file: 'test/http/as-of.test.ts',
    test: '^past responses equal',
    all: { PAST_EVENTS: 6000, PAST_QUERIES: 200, PAST_RESTORES: 2 },
    full: { PAST_EVENTS: 50_000, PAST_QUERIES: 1000, PAST_RESTORES: 10 },
  },
  lists: {
    about: 'clients with random queries, cut off at random, while the server is killed and started again under load',
    file: 'test/sockets/lists.long.test.ts',
    all: { LIST_CLIENTS: 40, LIST_KILLS: 3 },
    full: { LIST_CLIENTS: 200, LIST_KILLS: 10 },
  },
  followers: {
    about: 'subscribers that are cut off while clients write and the server is killed or ended: every list right',
    file: 'test/sockets/subscriptions.test.ts',
    test: 'lists stay right',
    all: { SUBSCRIPTION_ROUNDS: 4 },
    full: { SUBSCRIPTION_ROUNDS: 100 },
  },
  readers: {
    about: 'readers of every kind that stop reading cost the server no memory, catch up, or are let go',
    file: 'test/sockets/stalled-readers.long.test.ts',
    all: { STALLED_EVENTS: 6000 },
    full: { STALLED_EVENTS: 60_000 },
  },
  scans: {
    about: 'many searches of a long journal at once are answered, and followers that do not read need little memory',
    file: 'test/security/journal-scans.long.test.ts',
    full: { SCAN_EVENTS: 500_000 },
  },
  descriptors: {
    about: 'more idle connections than the process may open files: told so, nothing lost, and it resumes',
    file: 'test/faults/descriptors.test.ts',
    full: { DESCRIPTORS: 1024 },
  },
  floods: {
    about: 'clients that send pings and requests over sockets without end and read no answer cost no memory',
    file: 'test/security/socket-floods.long.test.ts',
    full: { SOCKET_FLOOD_MIB: 1024 },
  },
  subscriptions: {
    about:
      'subscriptions against the states that the events make, at every position, with lags, resets and lost connections',
    file: 'test/sockets/subscriptions.long.test.ts',
    all: { SUBSCRIPTION_SEEDS: 100 },
    full: { SUBSCRIPTION_SEEDS: 5000 },
  },
  client: {
    about:
      "clients' lists against fresh GETs, now and at the positions that they showed, through cut lines and restarts",
    file: 'test/client/lists.long.test.ts',
    all: { CLIENT_WRITES: 1000 },
    full: { CLIENT_WRITES: 20_000 },
  },
  pages: {
    about: 'the journal page on a million events: few rows in the document, and how long its tasks were',
    file: 'test/browser/journal-list.long.test.ts',
    test: '^the list of',
    all: { PAGES_EVENTS: 20_000, PAGES_LOOKS: 4 },
    full: { PAGES_EVENTS: 1_000_000 },
  },
  unread: {
    about:
      'requests sent without end and pages whose responses are not read: little memory, and who reads nothing is dropped',
    file: 'test/security/unread-responses.long.test.ts',
    all: { PIPELINED: 20_000, UNREAD_PAGES: 20 },
    full: { PIPELINED: 300_000, UNREAD_PAGES: 60 },
  },
  passwords: {
    about: 'wrong passwords that come all at once: few of them wait',
    file: 'test/security/password-floods.long.test.ts',
    all: { WRONG_PASSWORDS: 12_000 },
    full: { WRONG_PASSWORDS: 30_000 },
  },
  model: {
    about: 'random requests against a naive model, through restarts and edits by hand',
    file: 'test/model/model.test.ts',
    all: { MODEL_REQUESTS: 5000 },
    full: { MODEL_REQUESTS: 1_000_000 },
  },
}

/** The environment of `npm run test:all`. */
export function sizesOfAll() {
  return environmentOf(Object.assign({}, ...Object.values(RUNS).map(({ all }) => all)))
}

export function environmentOf(size) {
  return Object.fromEntries(Object.entries(size).map(([variable, value]) => [variable, String(value)]))
}
