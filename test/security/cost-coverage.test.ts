import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { LIST_OPERATIONS, LIST_SHAPES, listOf } from './cost-lists.ts'
import { OPERATIONS, SHAPES, subjectOf } from './cost-operations.ts'
import { open } from './cost-server.ts'

test('each route, parameter, media type, encoding and message is among the costly requests', async (t) => {
  const random = new Random(SEED)
  // Each request was sent to both once.
  const servers = [await open(t, 'open'), await open(t, 'guarded')] as const
  const [server] = servers
  for (const shape of ['wide object', 'numbers']) {
    const value = (SHAPES[shape] as (typeof SHAPES)[string])(500, random)
    const subject = await subjectOf(server, `of ${shape}`.replaceAll(' ', ''), value, random)
    assert.ok(subject)
    for (const operation of Object.values(OPERATIONS)) await operation(subject)
  }
  const values = (LIST_SHAPES.numbers as (typeof LIST_SHAPES)[string])(20_000, random)
  const list = await listOf(server, values, random)
  for (const operation of Object.values(LIST_OPERATIONS)) await operation(list)
  const [missing, others] = servers.map(({ coverage }) => coverage.missing)
  assert.deepEqual(
    missing?.filter((one) => others?.includes(one)),
    [],
  )
})
