// The dialog in which one says who one is, by one of the schemes that the server knows.
import { el, fill } from './dom.js'
import { Problem, server } from './server.js'

const NAMES = { token: 'Name and password', basic: 'Name and password, sent each time', apikey: 'API key' }

/** @type {HTMLDialogElement | undefined} */
let open

export function signIn() {
  if (open) return
  const { schemes } = server.access
  let scheme = schemes[0] ?? 'token'
  const fields = el('div.row')
  const problem = el('p.bad-text', { role: 'alert' })
  const submit = el('button.primary', { type: 'submit' }, 'Sign in')
  const choices = el(
    'div.choices.wrap',
    { role: 'group', 'aria-label': 'How' },
    schemes.map((one) =>
      el('button', { type: 'button', value: one, onclick: () => choose(one) }, NAMES[/** @type {'token'} */ (one)]),
    ),
  )
  const form = el(
    'form',
    { onsubmit: send },
    el('h2', { id: 'sign-in-title' }, 'Sign in'),
    schemes.length > 1 && choices,
    fields,
    problem,
    el('p.quiet', null, 'This is kept until the tab is closed or you sign out.'),
    el('div.row', null, submit, el('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel')),
  )
  /** @type {HTMLDialogElement} */
  const dialog = el('dialog', { 'aria-labelledby': 'sign-in-title', onclose: end }, form)
  choose(scheme)
  document.body.append(dialog)
  dialog.showModal()
  open = dialog

  function end() {
    dialog.remove()
    open = undefined
  }

  /** @param {string} one */
  function choose(one) {
    scheme = one
    for (const button of choices.children) button.setAttribute('aria-pressed', String(button.value === one))
    if (one === 'apikey') fill(fields, field('API key', 'key', 'password', 'off'))
    else {
      fill(
        fields,
        field('Name', 'username', 'text', 'username'),
        field('Password', 'password', 'password', 'current-password'),
      )
    }
  }

  /** @param {SubmitEvent} event */
  async function send(event) {
    event.preventDefault()
    submit.disabled = true
    problem.textContent = ''
    try {
      if (await server.signIn(await credentialsOf(new FormData(form), scheme))) dialog.close()
      else problem.textContent = 'The credentials are wrong.'
    } catch (error) {
      problem.textContent =
        error instanceof Problem && error.status === 401 ? 'The credentials are wrong.' : String(Object(error).message)
    }
    submit.disabled = false
  }
}

/**
 * @param {FormData} form
 * @param {string} scheme
 * @returns {Promise<import('./session.js').Credentials>}
 */
async function credentialsOf(form, scheme) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? '')
  if (scheme === 'apikey') return { scheme, key: text('key') }
  const person = { username: text('username'), password: text('password') }
  if (scheme === 'basic') return { scheme, ...person }
  const { body } = await server.ask('/token', { method: 'POST', body: person })
  return { scheme: 'token', token: body.access_token }
}

/**
 * @param {string} label
 * @param {string} name
 * @param {string} type
 * @param {string} autocomplete
 */
function field(label, name, type, autocomplete) {
  return el('label.field', null, label, el('input', { name, type, autocomplete, required: true }))
}
