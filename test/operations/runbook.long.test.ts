import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import { fill, mountSmallDisk, type Scope, temporaryDirectory } from '../support/directory.ts'
import { blocksOf, sectionOf } from '../support/documents.ts'
import { json, ofOneServer } from '../support/server.ts'
import { Operator, READINGS, RUNBOOK } from './operator.ts'

const FIRST = '/var/lib/recollect/db.journal/00000000000000000001.ndjson'
const isWithoutCurl = spawnSync('curl', ['--version'], { timeout: DEADLINE_MS }).error !== undefined
const missing = isWithoutCurl && process.env.CI !== 'true' ? 'curl is missing' : false
const skip = ofOneServer('it is a runbook of one server') || missing
const skipCopies = skip || (process.env.RSYNC ? false : 'rsync is missing (apt-get install rsync)')

/** Waits until the server has compressed so many segments. */
async function compressed(operator: Operator, count: number): Promise<void> {
  const directory = operator.path('/var/lib/recollect/db.journal')
  const isCompressed = (name: string): boolean => /\d\.ndjson\.gz$/.test(name)
  await until('compressed segments', () => readdirSync(directory).filter(isCompressed).length === count)
}

/** A module that sets the clock of a program three days ahead. */
const AHEAD = `globalThis.Date = class extends Date {
  static now() { return super.now() + 3 * 86_400_000 }
  constructor(...given) { super(...(given.length > 0 ? given : [new.target.now()])) }
}`

/** Changes a byte in the first half of a file. */
function damage(path: string): void {
  const bytes = readFileSync(path)
  const place = Math.floor(bytes.length / 4)
  bytes[place] = (bytes[place] ?? 0) ^ 1
  writeFileSync(path, bytes)
}

test('"Installing a service" makes a server and its settings', { skip }, async (t) => {
  const operator = new Operator(t, await temporaryDirectory(t))
  await operator.follow('Installing a service')
  assert.equal((await operator.fetch('/health')).status, 200)
  assert.ok(existsSync(operator.path('/etc/systemd/system/recollect.service')))
})

test('"Backups" continues a backup and tries it', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  for (const n of [101, 102]) await operator.write({ n })
  await operator.follow('Backups')
  await operator.check(READINGS + 2)
})

test('"Copies of backups" makes a copy that can be restored at any moment', { skip: skipCopies }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.follow('Copies of backups')
  // The segments that the copy has are compressed before the next one.
  await operator.stop()
  operator.configure({ Compress: 0 })
  await operator.start()
  await compressed(operator, 2)
  for (let n = 0; n < 100; n++) await operator.write({ n, text: 'x'.repeat(200) })
  await operator.run('recollect backup --file /var/lib/recollect/db.json --to /var/backups/recollect/db')
  const [first = '', second = ''] = blocksOf(sectionOf(RUNBOOK, 'Copies of backups'))[0]?.text.split('\n') ?? []
  await operator.run(first)
  const restored = await operator.run('recollect restore --from /srv/recollect --file /srv/former/db.json')
  assert.match(restored, /^Restored the events up to position 101,/)
  await operator.run(second)
  const whole = await operator.run('recollect restore --from /srv/recollect --file /srv/later/db.json')
  assert.match(whole, /^Restored the events up to position 201,/)
})

test('"First steps" looks at a server that is well', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await until('the data file to be current', async () => {
    const { dataFile } = (await (await operator.fetch('/health')).json()) as { dataFile: { state: string } }
    return dataFile.state === 'current'
  })
  await operator.follow('First steps')
})

test('"After a power loss" starts with a torn tail', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.stop('SIGKILL')
  const last = operator.path('/var/lib/recollect/db.journal/00000000000000000084.ndjson')
  const text = readFileSync(last, 'utf8')
  writeFileSync(last, text + text.trimEnd().split('\n').at(-1)?.slice(0, 100))
  await operator.follow('After a power loss')
  await operator.check()
})

test('"A damaged journal" repairs a byte, while the server was degraded', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.stop()
  damage(operator.path(FIRST))
  assert.ok(await operator.start())
  await operator.logged('the journal is damaged')
  assert.match(await (await operator.fetch('/health')).text(), /^\{"status":"degraded"/)
  await operator.follow('A damaged journal')
  await operator.check()
})

test('"A damaged store" removes a store that differs', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.stop()
  damage(operator.path('/var/lib/recollect/db.journal/store/store.mdb'))
  await operator.follow('A damaged store')
  await operator.check()
})

test('"A full disk" frees the reserve, and writes resume without a restart', { skip }, async (t) => {
  const disk = await mountSmallDisk(t, 8000)
  if ('missing' in disk) return t.skip(disk.missing)
  try {
    await fillAndFollow(t, disk.directory)
  } finally {
    disk.unmount()
  }
})

async function fillAndFollow(t: Scope, directory: string): Promise<void> {
  const operator = await Operator.withReadings(t, directory)
  const write = async (): Promise<number> => {
    const { status } = await operator.fetch('/api/others', json('POST', { text: 'x'.repeat(20_000) }))
    return status
  }
  await operator.follow('A full disk', async () => {
    const refused = await until('a write is refused', async () => {
      await fill(operator.path('/filler'))
      const status = await write()
      return status !== 201 && status
    })
    assert.ok([504, 507].includes(refused), `${refused}`)
    assert.equal((await operator.fetch('/api/readings')).status, 200)
  })
  await until('a write is stored', async () => (await write()) === 201)
  await until('the server is well', async () =>
    (await (await operator.fetch('/health')).text()).includes('"status":"ok"'),
  )
  rmSync(operator.path('/filler'))
  await operator.check(READINGS)
}

test('"A wrong clock" tells of a clock that was ahead', { skip }, async (t) => {
  const directory = await temporaryDirectory(t)
  const clock = `${directory}/ahead.mjs`
  writeFileSync(clock, AHEAD)
  const operator = new Operator(t, directory)
  operator.configure({})
  operator.env = { NODE_OPTIONS: `--import ${clock}` }
  assert.ok(await operator.start())
  for (let n = 1; n <= READINGS; n++) await operator.write({ n })
  await operator.stop()
  operator.env = {}
  assert.ok(await operator.start())
  await operator.follow('A wrong clock')
  await operator.check()
})

test('"Lost files" restores a journal that is missing', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.stop()
  rmSync(operator.path('/var/lib/recollect/db.journal'), { recursive: true })
  assert.equal(await operator.start(), false)
  assert.match(operator.server.stderr(), /journal/)
  await operator.follow('Lost files')
  await operator.check()
})

test('a data file, state file, store or secret that is lost is made again by the start', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  for (const lost of ['db.json', '.recollect', 'db.journal/store', 'db.journal/token.secret']) {
    await operator.stop()
    rmSync(operator.path(`/var/lib/recollect/${lost}`), { recursive: true, force: true })
    assert.ok(await operator.start(), lost)
    await operator.check()
  }
})

test('"Moving" takes everything but the store to a new machine', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  const state = operator.path('/var/lib/recollect')
  await operator.follow('Moving', async () => rmSync(state, { recursive: true }))
  await operator.check()
  await operator.run('recollect backup --file /var/lib/recollect/db.json --to /var/backups/recollect/db')
})

test('"Upgrading" and "Downgrading" keep all readings', { skip }, async (t) => {
  const operator = await Operator.withReadings(t)
  await operator.follow('Upgrading')
  await operator.check()
  await operator.stop()
  operator.configure({ Compress: 0 })
  await operator.start()
  const segments = (): readonly string[] => readdirSync(operator.path('/var/lib/recollect/db.journal'))
  await compressed(operator, 2)
  operator.configure({})
  await operator.follow('Downgrading')
  assert.deepEqual(
    segments().filter((name) => name.endsWith('.gz')),
    [],
  )
  await operator.check()
})

test('every section with commands is followed by a test', () => {
  const tests = readFileSync(new URL(import.meta.url), 'utf8')
  const titles = Array.from(RUNBOOK.matchAll(/^## (.*)$/gm), ([, title = '']) => title)
  const withCommands = titles.filter((title) =>
    blocksOf(sectionOf(RUNBOOK, title)).some(({ language }) => language !== ''),
  )
  assert.ok(withCommands.length > 10)
  for (const title of withCommands) assert.ok(tests.includes(`.follow('${title}'`), title)
})
