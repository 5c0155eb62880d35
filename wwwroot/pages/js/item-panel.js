// One item beside the table: what it is, what it was, and, for who may, another one in its place.
import { el, fill, say } from './dom.js'
import { draftOf } from './drafts.js'
import { visible } from './format.js'
import { jsonEditor } from './json-editor.js'
import { jsonView } from './json-view.js'
import { moment, withQuery } from './moment.js'
import { Problem, pathOf, server } from './server.js'
import { timeline } from './timeline.js'

/** A text area with more takes seconds to be laid out. */
const EDITED_CHARACTERS = 64 * 1024
const JSON_PATCH = '[\n  {"op": "replace", "path": "/", "value": null}\n]'

/**
 * @param {HTMLElement} place
 * @param {{ onClose: () => void, onMade: (key: string) => void }} options
 */
export function itemPanel(place, { onClose, onMade }) {
  let collection = ''
  /** @type {string | undefined} */
  let key
  let tab = 'value'
  /** What is shown. */
  let shownAt = ''
  let etag = ''
  /** @type {any} */
  let item
  let isEditing = false

  place.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !isEditing) onClose()
  })
  // What happened while there was no connection was not heard.
  server.addEventListener('again', () => {
    shownAt = ''
  })
  return { show, close, create, heard }

  function close() {
    key = undefined
    isEditing = false
    shownAt = ''
    place.hidden = true
    place.replaceChildren()
    place.parentElement?.classList.remove('with-item')
  }

  /** @param {import('./server.js').Updated} updated */
  function heard(updated) {
    if (updated.collection !== collection || String(updated.itemId ?? '') !== key || isEditing) return
    if (updated.method === 'DELETE') {
      item = undefined
      void draw()
      return
    }
    shownAt = ''
    void show(collection, key)
  }

  /**
   * @param {string} inCollection
   * @param {string | undefined} wanted
   */
  async function show(inCollection, wanted) {
    if (isEditing && inCollection === collection && wanted === key) return
    if (wanted === undefined) {
      if (!isEditing || key !== undefined) close()
      return
    }
    const at = JSON.stringify([inCollection, wanted, moment.at, tab, server.access])
    if (at === shownAt) return
    shownAt = at
    isEditing = false
    collection = inCollection
    key = wanted
    open()
    try {
      const answer = await server.ask(withQuery(pathOf(collection, key), moment.query))
      if (at !== shownAt) return
      item = answer.body
      etag = answer.headers.get('ETag') ?? ''
      if (mayWrite() && draftOf(collection, key).read()) edit()
      else await draw()
    } catch (error) {
      if (at !== shownAt) return
      item = undefined
      const isNone = error instanceof Problem && [400, 404].includes(error.status)
      if (isNone) await draw()
      else fill(place, head(), el('p.bad-text', null, String(Object(error).message)))
    }
  }

  function open() {
    place.hidden = false
    place.parentElement?.classList.add('with-item')
  }

  /** A single object has an empty key. */
  function title() {
    return visible(key || collection)
  }

  function head() {
    return el(
      'div.row.item-head',
      null,
      el('h2.break', null, title()),
      key === '' && el('p.quiet', null, 'single object'),
      key !== '' && el('button.plain.push', { type: 'button', 'aria-label': 'Close', onclick: onClose }, '✕'),
    )
  }

  function mayWrite() {
    return server.may('writer') && moment.at === undefined && item !== undefined
  }

  async function draw() {
    /** @param {string} name @param {string} text */
    const tabButton = (name, text) =>
      el('button', { type: 'button', 'aria-pressed': String(tab === name), onclick: () => turn(name) }, text)
    const inside = el('div.value')
    fill(
      place,
      head(),
      el(
        'div.row',
        null,
        el(
          'div.choices',
          { role: 'group', 'aria-label': 'Show' },
          tabButton('value', 'Value'),
          tabButton('history', 'History'),
        ),
        mayWrite() && el('button.push', { type: 'button', onclick: () => edit() }, 'Edit'),
        mayWrite() && el('button.danger', { type: 'button', onclick: () => void remove() }, 'Delete'),
      ),
      inside,
    )
    if (tab === 'history' && key !== undefined) {
      const line = timeline(collection, key, ({ position }) => [
        el('button.plain', { type: 'button', onclick: () => moment.show(position) }, 'Show this moment'),
      ])
      inside.append(line.element)
      await line.load()
    } else if (item === undefined) {
      inside.append(el('p.quiet', null, `There is no such item${moment.at === undefined ? '' : ' at this moment'}.`))
    } else inside.append(jsonView(item))
  }

  /** @param {string} name */
  function turn(name) {
    tab = name
    void show(collection, key)
  }

  function edit() {
    const isShort = JSON.stringify(item).length <= EDITED_CHARACTERS
    editor({
      title: title(),
      note: isShort ? '' : 'This item is too long to be edited as a whole here. A patch changes parts of it.',
      kinds: [
        ...(isShort ? [['PUT', 'Replace', 'application/json', JSON.stringify(item, null, 2)]] : []),
        ['PATCH', 'Merge patch', 'application/merge-patch+json', '{\n  \n}'],
        ['PATCH', 'JSON Patch', 'application/json-patch+json', JSON_PATCH],
      ],
      send: (method, type, text, tag) =>
        server.ask(pathOf(collection, key ?? ''), { method, type, text, headers: { 'If-Match': tag } }),
    })
  }

  /** @param {string} name */
  function create(name) {
    collection = name
    key = undefined
    open()
    editor({
      title: `New item of ${visible(name)}`,
      note: '',
      kinds: [['POST', 'Create', 'application/json', '{\n  \n}']],
      send: (method, type, text) => server.ask(pathOf(name), { method, type, text }),
    })
  }

  /**
   * @param {{ title: string, note: string, kinds: string[][], send: (method: string, type: string, text: string, etag: string) => Promise<import('./server.js').Answer> }} options
   */
  function editor({ title, note, kinds, send }) {
    isEditing = true
    const draft = draftOf(collection, key ?? null)
    const before = draft.read()
    /** The typed text, by kind. @type {Record<string, string>} */
    const texts = before?.texts ?? {}
    // What was typed before a reload is about the item as it was then.
    const tag = before?.etag ?? etag
    let kind = /** @type {string[]} */ (kinds.find(([, name]) => name === before?.kind) ?? kinds[0])
    const json = jsonEditor(textOf(kind), 'Item as JSON')
    json.area.addEventListener('input', keep)
    const problem = el('p.bad-text.break', { role: 'alert' })
    const submit = el('button.primary', { type: 'submit' }, 'Save')
    const cancel = () => {
      isEditing = false
      draft.remove()
      shownAt = ''
      if (key === undefined) close()
      else void show(collection, key)
    }
    const choices = kinds.map((one) =>
      el('button', { type: 'button', 'aria-pressed': String(one === kind), onclick: () => choose(one) }, one[1]),
    )
    fill(
      place,
      el('h2.break', null, title),
      note !== '' && el('p.quiet', null, note),
      before && el('p.quiet', null, 'This was typed before, and is not saved yet. Cancel discards it.'),
      el(
        'form.editor',
        { onsubmit: save },
        kinds.length > 1 && el('div.choices', { role: 'group', 'aria-label': 'How to change it' }, choices),
        json.element,
        problem,
        el('div.row', null, submit, el('button', { type: 'button', onclick: cancel }, 'Cancel')),
      ),
    )
    json.area.focus()

    /** @param {string[]} one */
    function choose(one) {
      kind = one
      for (const [index, each] of kinds.entries()) choices[index].setAttribute('aria-pressed', String(each === one))
      json.area.value = textOf(one)
      json.area.dispatchEvent(new Event('input'))
    }

    /** @param {string[]} one */
    function textOf([, name = '', , text = '']) {
      return Object.hasOwn(texts, name) ? /** @type {string} */ (texts[name]) : text
    }

    function keep() {
      const [, name = '', , text] = kind
      if (json.text === text) delete texts[name]
      else texts[name] = json.text
      if (Object.keys(texts).length === 0) draft.remove()
      else draft.write({ kind: name, texts, etag: tag })
    }

    /** @param {SubmitEvent} event */
    async function save(event) {
      event.preventDefault()
      if (!json.isJson) return json.area.focus()
      submit.disabled = true
      problem.textContent = ''
      try {
        const [method = '', , type = ''] = kind
        const { body } = await send(method, type, json.text, tag)
        isEditing = false
        draft.remove()
        shownAt = ''
        if (key === undefined) onMade(String(body[server.idField]))
        else await show(collection, key)
      } catch (error) {
        problem.textContent = whyNot(error)
        if (error instanceof Problem) json.showFaults(error.errors)
      }
      submit.disabled = false
    }
  }

  async function remove() {
    const path = pathOf(collection, key ?? '')
    const name = title()
    const what = { collection, ...(key !== '' && { id: item[server.idField] }) }
    try {
      const { position } = await server.ask(path, { method: 'DELETE', headers: { 'If-Match': etag } })
      onClose()
      const undo = async () => {
        await server
          .ask('/admin/restore', { method: 'POST', body: { ...what, to: position - 1 } })
          .catch((error) => say(error.message, { isBad: true }))
      }
      say(`${name} was deleted.`, server.may('admin') ? { action: { name: 'Undo', run: () => void undo() } } : {})
    } catch (error) {
      say(whyNot(error), { isBad: true })
    }
  }
}

/** @param {unknown} error */
function whyNot(error) {
  if (!(error instanceof Problem)) return String(error)
  if (error.status === 412) return 'Somebody else has changed it meanwhile. Cancel to see the current version.'
  if (error.status === 403) return `Not allowed: ${error.message}`
  return error.message
}
