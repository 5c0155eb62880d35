import type { Command } from '../commands/command.ts'
import type { Outcome } from '../commands/handler.ts'
import { isCreation, OBJECT_ID } from '../events/event.ts'
import { itemPath } from '../projections/address.ts'
import type { ApiRequest, Reply } from './api.ts'
import { wantsRepresentation } from './requests.ts'

/** The response to a command on one item. */
export function answerWith(
  { event, item }: Outcome,
  command: Command,
  { headers }: ApiRequest,
  reply: Reply,
  idField: string,
): void {
  if (!item) {
    reply.status = 204
    return
  }
  reply.set('ETag', item.tag)
  const onlyIfNewer = command.type === 'ReplaceItem' && command.onlyIfNewer ? ['only-if-newer'] : []
  if (onlyIfNewer.length > 0 && !event) {
    reply.set('Preference-Applied', onlyIfNewer[0] as string)
    reply.json('{"applied":false}')
    return
  }
  const created = event !== undefined && isCreation(event)
  const isPosted = command.type === 'CreateItem'
  if (created || isPosted) reply.set('Location', itemPath(command.collection, item.key))
  const isWanted = wantsRepresentation(headers)
  const applied = [...onlyIfNewer, ...(isWanted ? ['return=representation'] : [])]
  if (applied.length > 0) reply.set('Preference-Applied', applied.join(', '))
  // A single object that was created has no id to tell.
  if (isWanted || (created && item.id === OBJECT_ID)) reply.json(item.text, created ? 201 : 200)
  else if (created || isPosted) reply.json(JSON.stringify({ [idField]: item.id }), created ? 201 : 200)
  else reply.status = 204
}
