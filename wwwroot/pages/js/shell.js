// What all pages have around them: the way to the others, the state of the connection, who one is, and the time.
import { address } from './address.js'
import { el, fill, find, setText } from './dom.js'
import { counted } from './format.js'
import { moment } from './moment.js'
import { server } from './server.js'
import { signIn } from './sign-in.js'
import { timeBar } from './time-bar.js'

const CAUGHT_UP_MS = 8000
/** The messages of Chromium, Firefox and Safari when a server cannot be reached. */
const GONE = /^(Failed to fetch|NetworkError when|Load failed)/

/**
 * Begins a page.
 * @param {() => void} show is called when all has to be looked at anew: the moment is another one, the connection is
 *   back, somebody else signed in
 */
export async function startShell(show) {
  const button = el('button', { id: 'account', type: 'button', hidden: true, onclick: account })
  find('state').after(el('span.quiet', { id: 'who' }), button)
  find('shell').append(timeBar())
  server.addEventListener('state', drawState)
  server.addEventListener('access', drawAccount)
  server.addEventListener('again', () => void look())
  address.onBack(() => void look())
  moment.addEventListener('change', () => {
    drawLinks()
    show()
  })
  drawState()
  await server.start()
  await look()

  async function look() {
    const before = moment.at
    await moment.fromAddress().catch((error) => showProblem(error))
    // A moment that changed has shown itself.
    if (moment.at === before) show()
    drawLinks()
  }
}

function drawState() {
  const { state, caughtUp, access } = server
  const place = find('state')
  place.dataset.state = state
  const texts = {
    connecting: 'Connecting…',
    live: 'Connected',
    gone: 'Server gone, trying again…',
    refused: access.role === null ? 'Not signed in' : 'Not allowed',
  }
  setText(place, state === 'live' && caughtUp ? `Reconnected, ${counted(caughtUp, 'change')} caught up` : texts[state])
  if (state === 'live' && caughtUp) {
    setTimeout(() => {
      if (server.state === 'live' && server.caughtUp === caughtUp) setText(place, texts.live)
    }, CAUGHT_UP_MS)
  }
  const isOut = state === 'refused' && access.role === null
  let note = document.getElementById('refused')
  if (isOut && !note) {
    note = el(
      'div.note.warn.row',
      { id: 'refused' },
      el('p', null, 'This server requires you to sign in.'),
      el('button.primary', { type: 'button', onclick: signIn }, 'Sign in'),
    )
    document.querySelector('main')?.prepend(/** @type {Node} */ (note))
  }
  if (note) note.hidden = !isOut
  drawAccount()
}

function drawAccount() {
  const { schemes, actor, role } = server.access
  const button = find('account')
  button.hidden = schemes.length === 0
  const who = schemes.length === 0 || actor === null ? [] : [`${actor} (${role})`]
  setText(find('who'), [...who, ...(server.isReadOnly ? ['read-only'] : [])].join(', '))
  setText(button, actor === null ? 'Sign in' : 'Sign out')
}

function account() {
  if (server.access.actor === null) signIn()
  else void server.signOut()
}

/** The other pages show the same moment. */
function drawLinks() {
  for (const link of document.querySelectorAll('nav a[data-page]')) {
    const at = moment.at === undefined ? '' : `?at=${moment.at}`
    link.setAttribute('href', `${link.getAttribute('data-page')}${at}`)
  }
}

/** @param {any} [error] what went wrong; nothing when all is well */
export function showProblem(error) {
  let place = document.getElementById('problem')
  // The header says that the server is gone; the words of browsers for it help nobody.
  const isGone = error?.status === 0 || (error instanceof TypeError && GONE.test(error.message))
  if (!error || isGone || error.name === 'AbortError' || error.status === 401) {
    place?.remove()
    return
  }
  if (!place) {
    place = el('div.note.bad', { id: 'problem', role: 'alert' })
    document.querySelector('main')?.prepend(/** @type {Node} */ (place))
  }
  fill(/** @type {Element} */ (place), el('p.break', null, error.message))
}
