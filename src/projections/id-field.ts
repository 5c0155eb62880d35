import { own } from '../json/value.ts'
import { JournalMismatch } from '../runtime/errors.ts'
import type { Views } from './views.ts'

/** Items of each collection that are looked at. */
const ITEMS = 20

/**
 * Refuses items that have their ids in another member than the setting says: they were written with another setting.
 * @throws {JournalMismatch}
 */
export function checkIdField(views: Pick<Views, 'names' | 'find'>, idField: string): void {
  for (const name of views.names()) {
    const collection = views.find(name)
    if (!collection || collection.isObject) continue
    let seen = 0
    for (const { id, value } of collection.items()) {
      if (own(value, idField) !== id) {
        const field = Object.keys(value).find((member) => value[member] === id)
        const hint = field === undefined ? '' : ` It seems to be ${JSON.stringify(field)}.`
        throw new JournalMismatch(
          `The journal was written with another DataStore.IdField than ${JSON.stringify(idField)}: the item ${JSON.stringify(id)} of ${JSON.stringify(name)} has its id in another field.${hint} Start with that setting, or begin a new journal with --journal.`,
        )
      }
      if (++seen === ITEMS) break
    }
  }
}
