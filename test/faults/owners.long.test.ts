import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { walk } from '../../src/events/walk.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { fetch, until } from '../support/deadline.ts'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { json, spawnServer, startProgram } from '../support/server.ts'

const RACES = Number(process.env.RACES ?? 3)
const RESTARTS = Number(process.env.RESTARTS ?? 2)

test('two processes start on one journal: one gets it, the other says so and exits with 1', async (t) => {
  let directory = ''
  for (let race = 0; race < RACES; race++) {
    // Every other race is for a journal that is not there yet.
    if (race % 2 === 0) directory = await temporaryDirectory(t)
    const racers = [spawnServer(t, directory), spawnServer(t, directory)]
    const urls = await Promise.all(racers.map(({ listening }) => listening()))
    const owners = racers.filter((_, index) => urls[index])
    const others = racers.filter((_, index) => !urls[index])
    const told = racers.map(({ stderr }) => stderr()).join('')
    assert.equal(owners.length, 1, `race ${race}: ${owners.length} processes have the journal\n${told}`)
    for (const other of others) {
      assert.deepEqual(await other.ended(), { code: 1, signal: null })
      assert.match(other.stderr(), /^recollect: The journal \S+db\.journal is in use by another process\.$/m)
    }
    for (const [index, owner] of racers.entries()) {
      if (!urls[index]) continue
      assert.equal((await fetch(`${urls[index]}/api/a`, json('POST', { race }))).status, 201)
      owner.process.kill('SIGTERM')
      assert.deepEqual(await owner.ended(), { code: 0, signal: null }, owner.stderr())
    }
    const { torn } = await walk(nodeFiles, join(directory, 'db.journal'), () => {})
    assert.equal(torn, undefined)
  }
  t.diagnostic(`${RACES} races, one owner each`)
})

test('a second process leaves the files of the first unchanged', async (t) => {
  const owner = await startProgram(t, { data: { a: [{ id: 1 }] } })
  const isWritten = async () => {
    const { dataFile } = (await (await owner.fetch('/health')).json()) as { dataFile: { state: string } }
    return dataFile.state === 'current'
  }
  await until('the data file is written', isWritten)
  const before = await stateOf(owner.directory)
  const other = spawnServer(t, owner.directory)
  assert.equal(await other.listening(), undefined)
  assert.equal((await other.ended()).code, 1)
  assert.deepEqual(await stateOf(owner.directory), before)
  assert.equal((await owner.fetch('/api/a', json('POST', {}))).status, 201)
})

test('the journal is free at once when its owner is killed', async (t) => {
  const directory = await temporaryDirectory(t)
  for (let restart = 0; restart < RESTARTS; restart++) {
    const server = await startProgram(t, { directory, data: {} })
    assert.equal((await server.fetch('/api/a', json('POST', {}))).status, 201)
    await server.stop('SIGKILL')
  }
  const server = await startProgram(t, { directory })
  assert.equal(((await (await server.fetch('/api/a')).json()) as unknown[]).length, RESTARTS)
  t.diagnostic(`${RESTARTS} kills, the journal was free each time`)
})
