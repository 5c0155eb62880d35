import type { Command } from '../commands/command.ts'
import type { Outcome } from '../commands/outcome.ts'
import { isCreation, OBJECT_ID, type Position } from '../events/event.ts'
import { itemPath } from '../projections/address.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { Item } from '../query/embedding.ts'
import { Refusal } from '../runtime/errors.ts'
import { type HttpRequest, parseTags, type Reply } from './exchange.ts'
import { type ApiOptions, apiSegments, type Preference, prefers } from './requests.ts'
import { WriteHints, type WriteHintsOptions } from './write-hints.ts'

export function noCollection(name: string, code: Missing = 'UnknownParent'): Refusal {
  return new Refusal(code, `There is no collection ${JSON.stringify(name)}.`)
}

type Missing = 'NotFound' | 'UnknownParent'

/** @throws {Refusal} NotFound; `otherwise` where something inside the item is asked for */
export function itemNow(views: Pick<Views, 'find'>, name: string, key: string, otherwise: Missing = 'NotFound'): Item {
  const collection = views.find(name)
  if (!collection) throw noCollection(name)
  return collection.item(key) ?? noItem(name, key, otherwise)
}

/** The same at a position. */
export async function itemThen(
  past: Pick<Past, 'existed' | 'item'>,
  at: Position,
  name: string,
  key: string,
  otherwise: Missing,
): Promise<Item> {
  if (!past.existed(name, at)) throw noCollection(name)
  return (await past.item(name, key, at)) ?? noItem(name, key, otherwise)
}

function noItem(name: string, key: string, code: Missing): never {
  throw new Refusal(code, `There is no item ${JSON.stringify(key)} in "${name}".`)
}

export function target({ path, headers }: HttpRequest) {
  const [collection = '', key = OBJECT_ID] = apiSegments(path)
  return {
    collection,
    key,
    ifMatch: parseTags(headers['if-match']),
    ifNoneMatch: parseTags(headers['if-none-match']),
  }
}

/** Responds with an item as it is. */
export function replyItem(request: HttpRequest, reply: Reply, { tag, text }: Pick<Item, 'tag' | 'text'>): void {
  if (!reply.isNotModified(request, tag)) reply.json(text)
}

/** The response to a command on one item. */
export function answerWith(
  { event, item }: Outcome,
  command: Command,
  { headers }: HttpRequest,
  reply: Reply,
  options: Pick<ApiOptions, 'isJsonServer'> & WriteHintsOptions,
): void {
  if (!item) {
    reply.status = 204
    return
  }
  reply.set('ETag', item.tag)
  const applied: Preference[] = command.type === 'ReplaceItem' && command.onlyIfNewer ? ['only-if-newer'] : []
  const hints = new WriteHints(options, command.collection)
  if (command.type === 'ReplaceItem' && command.onlyIfNewer && !event) {
    hints.timed(command.item)
    hints.tell(reply)
    reply.set('Preference-Applied', applied.join())
    reply.json('{"applied":false}')
    return
  }
  const created = event !== undefined && isCreation(event)
  const isPosted = command.type === 'CreateItem'
  if (created || isPosted) reply.set('Location', itemPath(command.collection, item.key))
  if (created && isPosted) hints.created(command.item, item.id)
  hints.written(event)
  hints.tell(reply)
  const isPreferred = prefers(headers, 'return=representation')
  if (isPreferred) applied.push('return=representation')
  if (applied.length > 0) reply.set('Preference-Applied', applied.join(', '))
  // A created single object has no id to return.
  const isShown = isPreferred || options.isJsonServer || (created && item.id === OBJECT_ID)
  if (isShown) reply.json(item.text, created ? 201 : 200)
  else if (created || isPosted) reply.json(JSON.stringify({ [options.idField]: item.id }), created ? 201 : 200)
  else reply.status = 204
}
