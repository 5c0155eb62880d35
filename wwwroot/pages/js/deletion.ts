// Deleting items and collections: admins can undo it, others are asked before.
import { client, may } from './app.ts'
import { messageOf } from './controls.tsx'
import { shownCounts } from './counts.ts'
import { counted, visible } from './format.ts'
import { say } from './messages.tsx'
import { go } from './query.ts'
import { touched } from './rows.ts'
import { restoresOf, undo, type Write } from './undo.tsx'

/** Requests at a time. */
const AT_ONCE = 8

type Id = string | number

/** Deletes items that nobody has changed since a position; a single object has an empty id. Returns whether one was. */
export async function deleteItems(collection: string, ids: readonly Id[], ifUnchangedSince: number): Promise<boolean> {
  const isObject = ids[0] === ''
  const nameOf = (count: number): string => (isObject ? visible(collection) : counted(count, 'item'))
  if (!may('admin') && !confirm(`Delete ${nameOf(ids.length)}? Only an admin can bring it back.`)) return false
  const deleteItem = async (id: Id): Promise<Write> => {
    const item = isObject ? client.object(collection) : client.collection(collection).item(id)
    const { position } = await item.delete({ ifUnchangedSince })
    return { type: 'ItemDeleted', collection, id, position }
  }
  const results: PromiseSettledResult<Write>[] = []
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    results.push(...(await Promise.allSettled(ids.slice(from, from + AT_ONCE).map(deleteItem))))
  }
  touched.value++
  const done = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const problems = results.flatMap((one) => (one.status === 'rejected' ? [messageOf(one.reason)] : []))
  if (problems.length > 0) say(`${nameOf(problems.length)} not deleted. ${problems[0]}`, { isBad: true })
  if (done.length > 0) sayDeleted(nameOf(done.length), () => restoresOf(done))
  return done.length > 0
}

/** Deletes the collection with all its items, which takes the role admin, and shows another one. */
export async function deleteCollection(collection: string): Promise<void> {
  const [other] = Object.keys(shownCounts.value ?? {}).filter((name) => name !== collection)
  // Not later: the rows of a deleted collection cannot be read.
  go({ collection: other, query: undefined, item: undefined })
  const { deleted, position } = await client.collection(collection).drop({ atomic: true })
  const back = { collection, to: position - deleted - 1, ifUnchangedSince: position }
  sayDeleted(`${visible(collection)} with ${counted(deleted, 'item')}`, async () => [back])
}

function sayDeleted(what: string, restores: Parameters<typeof undo>[0]): void {
  say(`${what} deleted.`, may('admin') ? { action: { name: 'Undo', run: () => void undo(restores) } } : {})
}
