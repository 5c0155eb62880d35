import { randomUUID } from 'node:crypto'
import { journalContract } from '../contract/journal.ts'
import { memoryJournal } from '../support/journal.ts'

journalContract('the memory journal', async () => {
  let now = new Date('2026-11-20T00:00:00.000Z')
  return {
    journal: memoryJournal(randomUUID(), () => now),
    setTime: (iso) => {
      now = new Date(iso)
    },
  }
})
