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
