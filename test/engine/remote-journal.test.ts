import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import { FileEngine } from '../../src/engine/file-engine.ts'
import type { RemoteJournal } from '../../src/engine/remote-journal.ts'
import { choice, text } from '../../src/settings/kinds.ts'
import { fetch } from '../support/deadline.ts'
import { startHere } from '../support/service.ts'

/** A journal in another directory, which stands for any place that is not the usual one. */
function elsewhere(opened: unknown[]): RemoteJournal {
  return {
    ...CLUSTER,
    keys: {
      'Journal.Type': choice('file', ['file', 'elsewhere'], 'where the journal is'),
      'Journal.Place': text('', 'its directory'),
    },
    read(value, absolute, mistakes) {
      if (value('Journal.Type') === 'file') return undefined
      const place = String(value('Journal.Place'))
      if (place === '') mistakes.push('Journal.Place must name a directory.')
      return { place: absolute(place) }
    },
    open(settings, dependencies) {
      opened.push(settings.remote)
      const { place } = settings.remote as { readonly place: string }
      return FileEngine.open({ ...settings, journal: place, store: `${place}/store` }, dependencies)
    },
  }
}

const ELSEWHERE = ['--Journal.Type', 'elsewhere']

test('a remote journal has settings of its own, and the service serves its engine', async (t) => {
  const opened: unknown[] = []
  const remoteJournal = elsewhere(opened)
  const flags = [...ELSEWHERE, '--Journal.Place', 'place']
  const { url, directory } = await startHere(t, { data: { people: [{ id: 1 }] }, remoteJournal, flags })
  assert.deepEqual(opened, [{ place: join(directory, 'place') }])
  assert.deepEqual(await (await fetch(`${url}/api/people`)).json(), [{ id: 1 }])
})

test('a remote journal that the settings do not choose is not opened', async (t) => {
  const opened: unknown[] = []
  const { url } = await startHere(t, { data: { people: [] }, remoteJournal: elsewhere(opened) })
  assert.equal((await fetch(`${url}/api/people`)).status, 200)
  assert.deepEqual(opened, [])
})

test('mistakes in the settings of a remote journal prevent the start, and settings of another one are unknown', async (t) => {
  const remoteJournal = elsewhere([])
  await assert.rejects(startHere(t, { remoteJournal, flags: ELSEWHERE }), /Journal\.Place must name a directory/)
  const flags = ['--Journal.Servers', 'a']
  await assert.rejects(startHere(t, { remoteJournal, flags }), /Unknown flag --Journal\.Servers/)
})
