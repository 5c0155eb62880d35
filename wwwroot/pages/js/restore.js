// Going back: first what would change, then, if that is what one wants, the changing; and the way back from there.
import { el, fill, say } from './dom.js'
import { counted, visible } from './format.js'
import { server } from './server.js'
import { VERBS } from './timeline.js'

const SHOWN = 100

/**
 * @typedef {{ name: string, collection?: string, id?: string | number }} Scope
 * @param {number} to position
 * @param {Scope[]} scopes what can be brought back, the first one chosen
 */
export function restoreDialog(to, scopes) {
  let scope = /** @type {Scope} */ (scopes[0])
  let turn = 0
  const changes = el('div.changes', { tabIndex: 0, role: 'region', 'aria-label': 'What would change' })
  const problem = el('p.bad-text.break', { role: 'alert' })
  const confirm = el('button.primary', { type: 'submit', disabled: true }, 'Restore')
  const choices = scopes.map((one) => el('button', { type: 'button', onclick: () => choose(one) }, visible(one.name)))
  const form = el(
    'form',
    { onsubmit: restore },
    el('h2', { id: 'restore-title' }, `Back to position ${to}`),
    scopes.length > 1 && el('div.choices.wrap', { role: 'group', 'aria-label': 'What' }, choices),
    el('p.quiet', null, 'History is not changed: the restore is written as new events, and can be undone.'),
    changes,
    problem,
    el('div.row', null, confirm, el('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel')),
  )
  const dialog = el('dialog', { 'aria-labelledby': 'restore-title', onclose: () => dialog.remove() }, form)
  document.body.append(dialog)
  dialog.showModal()
  choose(scope)

  /** @param {Scope} one */
  async function choose(one) {
    scope = one
    const own = ++turn
    for (const [index, each] of scopes.entries()) choices[index].setAttribute('aria-pressed', String(each === one))
    confirm.disabled = true
    problem.textContent = ''
    fill(changes, el('p.quiet', null, 'Checking what would change…'))
    try {
      const found = await server.client.restore({ ...requestOf(one), to, dryRun: true })
      if (own !== turn) return
      confirm.disabled = found.events === 0
      confirm.textContent = found.events === 0 ? 'Restore' : `Restore, ${counted(found.events, 'event')}`
      const listed = /** @type {any[]} */ (found.changes)
      fill(
        changes,
        found.events === 0
          ? el('p', null, 'Nothing would change: the state is the same.')
          : el(
              'ul',
              null,
              listed
                .slice(0, SHOWN)
                .map(({ type, collection, id }) =>
                  el('li.break', null, `${VERBS[type] ?? type}: `, el('span.mono', null, placeText(collection, id))),
                ),
            ),
        found.events > SHOWN && el('p.quiet', null, `and ${counted(found.events - SHOWN, 'more', 'more')}`),
      )
    } catch (error) {
      if (own === turn) fill(changes, el('p.bad-text.break', null, messageOf(error)))
    }
  }

  /** @param {SubmitEvent} event */
  async function restore(event) {
    event.preventDefault()
    confirm.disabled = true
    try {
      const { position, events } = await server.client.restore({ ...requestOf(scope), to })
      dialog.close()
      const undo = () => void takeBack(position - events)
      say(`${visible(scope.name)} restored by ${counted(events, 'event')}.`, { action: { name: 'Undo', run: undo } })
    } catch (error) {
      problem.textContent = messageOf(error)
      confirm.disabled = false
    }
  }

  /** @param {number} before */
  async function takeBack(before) {
    try {
      const { events } = await server.client.restore({ ...requestOf(scope), to: before })
      say(`Undone by ${counted(events, 'event')}.`)
    } catch (error) {
      say(messageOf(error), { isBad: true })
    }
  }
}

/** @param {Scope} scope */
function requestOf({ collection, id }) {
  return { ...(collection !== undefined && { collection }), ...(id !== undefined && { id }) }
}

/**
 * @param {string} collection
 * @param {string | number | undefined} id
 */
export function placeText(collection, id) {
  return visible(id === undefined || id === '' ? collection : `${collection}/${id}`)
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error)
}
