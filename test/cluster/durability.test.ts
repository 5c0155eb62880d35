import assert from 'node:assert/strict'
import { test } from 'node:test'
import { durabilityWarnings, type ServerFacts } from '../../src/cluster/durability.ts'

const SOUND: ServerFacts = { version: '2.12.3', replicas: 3, syncsAlways: true, messageBytes: 1024 * 1024 - 1024 }

test('three recent NATS servers that sync every write cause no warning', () => {
  assert.deepEqual(durabilityWarnings(SOUND), [])
  assert.deepEqual(durabilityWarnings({ ...SOUND, version: '2.10.23' }), [])
})

test('an old version, too few replicas, lazy syncs and small messages are warned about', () => {
  const warned = (facts: Partial<ServerFacts>) => durabilityWarnings({ ...SOUND, ...facts })
  for (const version of ['2.9.10', '2.10.22', '1.4.0']) {
    assert.match(warned({ version }).join(), /known to forget a whole stream/)
  }
  assert.match(warned({ replicas: 1 }).join(), /one copy/)
  assert.match(warned({ syncsAlways: false }).join(), /do not sync each write.*of most servers.*sync_interval: always/s)
  assert.match(warned({ syncsAlways: undefined }).join(), /not known whether/)
  assert.match(warned({ syncsAlways: undefined, version: '2.9.10' }).join(), /cannot sync each write/)
  assert.match(warned({ messageBytes: 64 * 1024 - 1024 }).join(), /at most 65536 bytes/)
})
