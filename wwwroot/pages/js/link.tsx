// Links to other states of a page: a filter, an item, an event. They can be opened in a tab of their own.
import type { ComponentProps } from 'preact'
import { address, type Changes } from './address.ts'

type LinkProperties = Omit<ComponentProps<'a'>, 'href' | 'onClick'> & {
  readonly to: object
  /** Called before the page shows it. */
  readonly onOpen?: () => void
}

let follow = (to: Changes): void => address.set(to, { isStep: true })

/** Sets how the page shows another state without being loaded anew. */
export function followLinks(go: (to: Changes) => void): void {
  follow = go
}

/** With a modifier key the browser opens the address. */
export function Link({ to, onOpen, children, ...rest }: LinkProperties) {
  const open = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    onOpen?.()
    follow(to as Changes)
  }
  return (
    <a {...(rest as object)} href={address.search(to as Changes)} onClick={open}>
      {children}
    </a>
  )
}
