import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { fill, mountSmallDisk, type Scope } from '../support/directory.ts'
import { json, ofOneServer } from '../support/server.ts'
import { Operator, READINGS } from './operator.ts'

const skip = ofOneServer('it is a runbook of one server')

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
