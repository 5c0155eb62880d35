// Elements made of what they are, their properties and what is in them. Text is text: nothing here reads markup, so
// nothing that a server sends can become some.

const FLASH_MS = 1500

/**
 * @typedef {Node | string | number | false | null | undefined} Child
 * @param {string} tag the element's name, then its classes: `p.quiet.break`
 * @param {Record<string, any> | null} [properties] `on…` are listeners, names with a dash or `role` attributes, the
 *   rest properties of the element
 * @param {...(Child | readonly Child[])} children
 * @returns {any}
 */
export function el(tag, properties, ...children) {
  const [name = 'div', ...classes] = tag.split('.')
  const element = document.createElement(name)
  if (classes.length > 0) element.className = classes.join(' ')
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined) continue
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (key.includes('-') || key === 'role' || key === 'for') element.setAttribute(key, String(value))
    else Object.assign(element, { [key]: value })
  }
  put(element, ...children)
  return element
}

/**
 * Appends what there is.
 * @param {Element} parent
 * @param {...(Child | readonly Child[])} children
 */
export function put(parent, ...children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(typeof child === 'number' ? String(child) : child)
    }
  }
}

/**
 * @param {Element} parent
 * @param {...(Child | readonly Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren()
  put(parent, ...children)
}

/** @param {string} id */
export function find(id) {
  const element = document.getElementById(id)
  if (!element) throw new Error(`the page has no #${id}`)
  return /** @type {any} */ (element)
}

/**
 * Sets the text only where it is another one, so that what is selected stays so and nothing is laid out anew.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** @type {WeakMap<Element, ReturnType<typeof setTimeout>>} */
const shining = new WeakMap()

/**
 * Lets the element shine for a moment: it has changed.
 * @param {Element} element
 */
export function flash(element) {
  clearTimeout(shining.get(element))
  element.classList.add('flash')
  shining.set(
    element,
    setTimeout(() => element.classList.remove('flash'), FLASH_MS),
  )
}

/**
 * Calls at most once in an interval, the last time after the last call.
 * @param {() => void | Promise<void>} work of which one runs at a time
 * @param {number} ms
 */
export function calmly(work, ms) {
  let wanted = false
  let isRunning = false
  return function call() {
    wanted = true
    if (!isRunning) void run()
  }
  async function run() {
    isRunning = true
    while (wanted) {
      wanted = false
      try {
        await work()
      } catch (error) {
        console.error(error)
      }
      await new Promise((resolve) => setTimeout(resolve, ms))
    }
    isRunning = false
  }
}

/**
 * Says something in a corner of the page, for a while, and to screen readers.
 * @param {string} text
 * @param {{ isBad?: boolean, action?: { name: string, run: () => void } }} [options]
 */
export function say(text, { isBad = false, action } = {}) {
  let messages = document.getElementById('messages')
  if (!messages) {
    messages = el('div', { id: 'messages', role: 'status', 'aria-live': 'polite' })
    document.body.append(/** @type {Node} */ (messages))
  }
  const close = el('button.plain', { type: 'button', 'aria-label': 'Dismiss', onclick: () => message.remove() }, '✕')
  const message = el(isBad ? 'div.message.bad' : 'div.message', null, el('span', null, text))
  if (action) {
    const run = () => {
      message.remove()
      action.run()
    }
    message.append(el('button', { type: 'button', onclick: run }, action.name))
  }
  message.append(close)
  messages?.append(message)
  setTimeout(() => message.remove(), action ? 30_000 : 8000)
}
