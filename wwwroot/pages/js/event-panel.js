// One event beside the list: who did it and when, what it changed, and what else happened to its item.
import { el, fill } from './dom.js'
import { count, dateTime, visible } from './format.js'
import { diffView } from './json-diff.js'
import { jsonView } from './json-view.js'
import { moment } from './moment.js'
import { placeText, restoreDialog } from './restore.js'
import { server } from './server.js'
import { timeline, VERBS } from './timeline.js'

/**
 * @param {HTMLElement} place
 * @param {{ go: (changes: Record<string, string | number | undefined>) => void }} options
 */
export function eventPanel(place, { go }) {
  let shown = ''
  return { show }

  /**
   * @param {number | undefined} position
   * @param {number | undefined} base the event that it is compared with; undefined: the one before
   */
  async function show(position, base) {
    const wanted = JSON.stringify([position, base, server.journal, server.access, moment.at])
    if (wanted === shown) return
    shown = wanted
    place.hidden = position === undefined
    if (position === undefined) return fill(place)
    try {
      const event = await eventAt(position)
      const from = base ?? event.prior ?? 0
      const before = from > 0 ? await eventAt(from) : undefined
      if (wanted === shown) await draw(event, before)
    } catch (error) {
      if (wanted === shown)
        fill(place, head('Event', position), el('p.bad-text.break', null, String(Object(error).message)))
    }
  }

  /** @param {number} position @returns {Promise<any>} */
  async function eventAt(position) {
    return (await server.ask(`/events/${position}`)).body
  }

  /**
   * @param {string} title
   * @param {number} position
   */
  function head(title, position) {
    const close = () => go({ event: undefined, with: undefined })
    return el(
      'div.row.panel-head',
      null,
      el('h2.break', null, title),
      el('span.quiet.number', null, `position ${count(position)}`),
      el('button.plain.push', { type: 'button', 'aria-label': 'Close', onclick: close }, '✕'),
    )
  }

  /**
   * @param {any} event
   * @param {any} before
   */
  async function draw(event, before) {
    const { position, type, collection, id, revision, time, actor, requestId, item, ids } = event
    const isItem = id !== undefined
    const mayRestore = server.may('admin')
    const scopes = [
      ...(id !== undefined && id !== '' ? [{ name: placeText(collection, id), collection, id }] : []),
      { name: `All of ${collection}`, collection },
      { name: 'Everything' },
    ]
    const onCollections = `collections.html?${new URLSearchParams({ collection, ...(isItem && id !== '' && { item: String(id) }), at: String(position) })}`
    const history = isItem
      ? timeline(collection, String(id), (one) => [
          el(
            'button.plain',
            { type: 'button', onclick: () => go({ event: one.position, with: undefined }) },
            'Look at it',
          ),
          one.position !== position &&
            el('button.plain', { type: 'button', onclick: () => go({ with: one.position }) }, 'Compare with it'),
        ])
      : undefined
    fill(
      place,
      head(VERBS[type] ?? type, position),
      el('p.mono.break', null, el('a', { href: onCollections }, placeText(collection, id))),
      el(
        'p.quiet.number',
        null,
        `${dateTime(Date.parse(time), { withMs: true })} by ${visible(actor)}${isItem ? `, revision ${revision}` : ''}`,
      ),
      el(
        'div.row',
        null,
        el('button', { type: 'button', onclick: () => moment.show(position) }, 'Show this moment'),
        mayRestore && el('button', { type: 'button', onclick: () => restoreDialog(position, scopes) }, 'Back to this…'),
        mayRestore &&
          el('button', { type: 'button', onclick: () => restoreDialog(position - 1, scopes) }, 'Back to before…'),
      ),
      isItem && el('h3', null, comparison(event, before)),
      isItem && diffView(before?.item, item),
      item && el('details', null, el('summary', null, 'The item after this event'), jsonView(item)),
      ids && el('details', null, el('summary', null, 'The order after this event'), jsonView(ids)),
      el('p.quiet.break', null, `Request ${visible(requestId)}`),
      history && el('h3', null, 'History of this item'),
      history?.element,
    )
    await history?.load()
  }
}

/**
 * @param {any} event
 * @param {any} before
 */
function comparison(event, before) {
  if (!before) return 'What it changed'
  if (before.position === event.prior) return `Changes since revision ${before.revision}`
  return `Differences from revision ${before.revision} to revision ${event.revision}`
}
