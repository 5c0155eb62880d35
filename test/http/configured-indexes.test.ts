import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { json, startServer } from '../support/server.ts'

test('the configured indexes of a collection that a request creates are built without a query', async (t) => {
  const flags = ['--Collections', JSON.stringify({ readings: { Indexes: ['mac,at', 'value'] } })]
  const server = await startServer(t, { data: { other: [] }, flags })
  const hasIndexes = async (entries: number): Promise<boolean> => {
    const metrics = await (await server.fetch('/metrics')).text()
    return ['mac,at', 'value'].every((path) =>
      metrics.includes(`recollect_index_entries{collection="readings",path="${path}"} ${entries}\n`),
    )
  }
  await server.fetch('/api/readings', json('POST', { mac: 'a', at: 1, value: 2 }))
  await until('the indexes of the new collection', () => hasIndexes(1))
  await server.fetch('/api/readings?all=true', { method: 'DELETE' })
  await server.fetch('/api/readings', json('POST', [{ mac: 'b' }, { mac: 'c' }]))
  await until('those of the collection that was created again', () => hasIndexes(2))
})
