import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClusterHandler } from '../../src/cluster/cluster-handler.ts'
import type { FileItem } from '../../src/collections/file-items.ts'

test('a follower stops reading what a restore needs once no message can hold it', async () => {
  const messageBytes = 64 * 1024
  let read = 0
  const handler = new ClusterHandler({
    node: { id: 'this', leader: 'other', isLeader: false },
    messenger: { messageBytes, ask: () => assert.fail('it does not fit into a message') },
    hasRoom: () => true,
  } as unknown as ConstructorParameters<typeof ClusterHandler>[0])
  const items = function* (): Generator<FileItem> {
    for (; read < 1_000_000; read++) yield { id: read, text: JSON.stringify({ id: read, text: 'x'.repeat(100) }) }
  }
  const restoration = { type: 'collections', collections: new Map([['a', { items }]]) } as const
  await assert.rejects(handler.restore(restoration, { actor: 'ann', requestId: 'r' }, false), { code: 'TooLarge' })
  assert.ok(read < messageBytes / 100, `${read} items`)
})
