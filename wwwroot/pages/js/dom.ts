// Small things that are done to the document itself.

const FLASH_MS = 1500

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
