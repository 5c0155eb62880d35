// Small things that are done to the document itself.

const FLASH_MS = 1500
const SAID_MS = 8000
const OFFERED_MS = 30_000

const shining = new WeakMap<Element, ReturnType<typeof setTimeout>>()

/** Lets the element shine for a moment: it has changed. */
export function flash(element: Element): void {
  clearTimeout(shining.get(element))
  element.classList.add('flash')
  shining.set(
    element,
    setTimeout(() => element.classList.remove('flash'), FLASH_MS),
  )
}

/** Calls at most once in an interval, the last time after the last call. One call runs at a time. */
export function calmly(work: () => void | Promise<void>, ms: number): () => void {
  let wanted = false
  let isRunning = false
  const run = async (): Promise<void> => {
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
  return () => {
    wanted = true
    if (!isRunning) void run()
  }
}

interface SayOptions {
  readonly isBad?: boolean
  readonly action?: { readonly name: string; readonly run: () => void }
}

/** Says something in a corner of the page, for a while, and to screen readers. */
export function say(text: string, { isBad = false, action }: SayOptions = {}): void {
  const message = document.createElement('div')
  message.className = isBad ? 'message bad' : 'message'
  const words = document.createElement('span')
  words.textContent = text
  message.append(words)
  if (action) message.append(button(action.name, action.run))
  const close = button('✕', () => {})
  close.className = 'plain'
  close.setAttribute('aria-label', 'Dismiss')
  message.append(close)
  messages().append(message)
  setTimeout(() => message.remove(), action ? OFFERED_MS : SAID_MS)

  function button(name: string, run: () => void): HTMLButtonElement {
    const made = document.createElement('button')
    made.type = 'button'
    made.textContent = name
    made.addEventListener('click', () => {
      message.remove()
      run()
    })
    return made
  }
}

function messages(): HTMLElement {
  const known = document.getElementById('messages')
  if (known) return known
  const place = document.createElement('div')
  place.id = 'messages'
  place.setAttribute('role', 'status')
  document.body.append(place)
  return place
}
