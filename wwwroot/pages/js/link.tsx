// A link to another state of the page: a filter, an event. It can be opened in a tab of its own.
import type { ComponentChildren } from 'preact'
import { go, type Step } from './journal-list.ts'

interface Properties {
  readonly step: Step
  readonly children: ComponentChildren
  readonly class?: string
  readonly title?: string
  readonly tabIndex?: number
  readonly 'aria-label'?: string
  readonly 'data-part'?: string
}

export function Link({ step, children, ...properties }: Properties) {
  const search = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(step)) {
    if (value === undefined || value === '') search.delete(name)
    else search.set(name, String(value))
  }
  return (
    <a
      {...properties}
      href={`?${search}`}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return
        event.preventDefault()
        go(step)
      }}
    >
      {children}
    </a>
  )
}
