// Deleting items and collections: admins can undo it, others are asked before.
import { client, may } from './app.ts'
import { messageOf } from './controls.tsx'
import { counted, visible } from './format.ts'
import { say } from './messages.tsx'
import { touched } from './rows.ts'

/** Requests at a time. */
const AT_ONCE = 8

type Id = string | number

/** An item with the position before its deletion. */
interface Deleted {
  readonly id: Id
  readonly to: number
}

/** Deletes items that nobody has changed since a position; a single object has an empty id. Returns whether one was. */
export async function deleteItems(collection: string, ids: readonly Id[], ifUnchangedSince: number): Promise<boolean> {
  const isObject = ids[0] === ''
  const nameOf = (count: number): string => (isObject ? visible(collection) : counted(count, 'item'))
  if (!may('admin') && !confirm(`Delete ${nameOf(ids.length)}? Only an admin can bring it back.`)) return false
  const deleteItem = async (id: Id): Promise<Deleted> => {
    const item = isObject ? client.object(collection) : client.collection(collection).item(id)
    const { position } = await item.delete({ ifUnchangedSince })
    return { id, to: position - 1 }
  }
  const results: PromiseSettledResult<Deleted>[] = []
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    results.push(...(await Promise.allSettled(ids.slice(from, from + AT_ONCE).map(deleteItem))))
  }
  touched.value++
  const done = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const problems = results.flatMap((one) => (one.status === 'rejected' ? [messageOf(one.reason)] : []))
  if (problems.length > 0) say(`${nameOf(problems.length)} not deleted. ${problems[0]}`, { isBad: true })
  if (done.length > 0) sayDeleted(nameOf(done.length), () => bringBack(collection, done))
  return done.length > 0
}

/** Deletes the collection with all its items, which takes the role admin. */
export async function deleteCollection(collection: string): Promise<void> {
  const { deleted, position } = await client.collection(collection).drop({ atomic: true })
  const to = position - deleted - 1
  sayDeleted(`${visible(collection)} with ${counted(deleted, 'item')}`, () => client.restore({ collection, to }))
}

/** The collection as it was, with the order of its items, unless others have changed something in it meanwhile. */
async function bringBack(collection: string, deleted: readonly Deleted[]): Promise<void> {
  const whole = { collection, to: Math.min(...deleted.map(({ to }) => to)) }
  const ids = new Set(deleted.map(({ id }) => id))
  const { events, changes } = await client.restore({ ...whole, dryRun: true })
  const isOwn = changes.length === events && changes.every(({ id }) => id === undefined || ids.has(id))
  if (isOwn) await client.restore(whole)
  else for (const { id, to } of deleted) await client.restore({ collection, id, to })
}

function sayDeleted(what: string, undo: () => Promise<unknown>): void {
  const run = (): void => {
    undo().catch((error) => say(messageOf(error), { isBad: true }))
  }
  say(`${what} deleted.`, may('admin') ? { action: { name: 'Undo', run } } : {})
}
