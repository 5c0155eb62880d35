// A link to another place of the page: a collection, a query, an item.
import type { ComponentProps } from 'preact'
import { go, type Place, searchOf } from './query.ts'

type LinkProperties = ComponentProps<'a'> & {
  readonly to: Place
  /** Before it leads there. */
  readonly onOpen?: () => void
}

/** Without a modifier key it leads there without loading the page anew. */
export function Link({ to, onOpen, children, ...rest }: LinkProperties) {
  const open = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    onOpen?.()
    go(to)
  }
  return (
    <a {...(rest as object)} href={searchOf(to)} onClick={open}>
      {children}
    </a>
  )
}
