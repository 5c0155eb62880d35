// What happened to one item, the latest first: who did what when, and what changed by it.
import { el, fill } from './dom.js'
import { dateTime } from './format.js'
import { diffView } from './json-diff.js'
import { moment } from './moment.js'
import { server } from './server.js'

const PAGE = 30

/** @typedef {{ position: number, type: string, collection: string, id?: string | number, revision?: number, prior?: number, time: string, actor: string, requestId: string, item?: any }} JournalEvent */

export const VERBS = /** @type {Record<string, string>} */ ({
  ItemCreated: 'created',
  ItemReplaced: 'replaced',
  ItemPatched: 'patched',
  ItemDeleted: 'deleted',
  CollectionCreated: 'collection created',
  ObjectCreated: 'object created',
  ObjectDeleted: 'object deleted',
  CollectionRemoved: 'collection removed',
  CollectionOrdered: 'reordered',
  IdsReset: 'ids reset',
})

/**
 * @param {string} collection
 * @param {string} key
 * @param {(event: JournalEvent) => Node[]} [actions] what can be done with an event
 */
export function timeline(collection, key, actions = () => []) {
  const list = el('ol.timeline')
  const more = el('button', { type: 'button', hidden: true, onclick: () => void older() }, 'Older')
  const element = el('div', null, list, more)
  let next = 0
  return { element, load }

  async function load() {
    const events = await eventsFrom(moment.at)
    fill(list, linesOf(events))
    if (events.length === 0) fill(list, el('li.quiet', null, 'It has no events at this moment.'))
  }

  async function older() {
    const events = await eventsFrom(next)
    list.append(...linesOf(events))
  }

  /** @param {number | undefined} from */
  async function eventsFrom(from) {
    const wanted = new URLSearchParams({ collection, id: key, order: 'desc', limit: String(PAGE + 1) })
    if (from !== undefined) wanted.set('from', String(from))
    const { body } = await server.ask(`/events?${wanted}`)
    return /** @type {JournalEvent[]} */ (body)
  }

  /** @param {JournalEvent[]} events the last one only tells what was before */
  function linesOf(events) {
    more.hidden = events.length <= PAGE
    next = events[PAGE]?.position ?? 0
    return events
      .slice(0, PAGE)
      .map((event, index) =>
        el(
          'li',
          null,
          el(
            'p.about',
            null,
            el('strong', null, VERBS[event.type] ?? event.type),
            el('span.quiet', null, `by ${event.actor}`),
            el('time.quiet.number', { dateTime: event.time }, dateTime(Date.parse(event.time), { withMs: true })),
            el('span.quiet.number', null, `revision ${event.revision}, position ${event.position}`),
          ),
          diffView(events[index + 1]?.item, event.item),
          el('div.row', null, actions(event)),
        ),
      )
  }
}
