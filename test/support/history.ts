import { History } from '../../src/projections/history.ts'
import type { Views } from '../../src/projections/views.ts'

/** A history that is stored with the views, as that of an engine. */
export function storedHistory(views: Views): History {
  const history = new History(views)
  views.storeWith(history)
  return history
}
