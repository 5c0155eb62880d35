// Long lists of which only the rows in view are in the document.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  type VirtualItem,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import type { RefObject } from 'preact'
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks'

export interface VirtualRows {
  /** The rows to draw, each `start` pixels from the top of the list. */
  readonly rows: readonly VirtualItem[]
  /** The height of the whole list in pixels. */
  readonly height: number
  readonly virtualizer: Virtualizer<HTMLElement, HTMLElement>
}

/** Rows in the element that scrolls; `size` is the height of one in pixels, until it is measured. */
export function useVirtualRows(
  place: RefObject<HTMLElement | null>,
  options: { readonly count: number; readonly size: number } & Partial<VirtualizerOptions<HTMLElement, HTMLElement>>,
): VirtualRows {
  const [, draw] = useReducer((turn: number) => turn + 1, 0)
  const { count, size, ...rest } = options
  const all: VirtualizerOptions<HTMLElement, HTMLElement> = {
    count,
    getScrollElement: () => place.current,
    estimateSize: () => size,
    overscan: 6,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => draw(undefined),
    ...rest,
  }
  const kept = useRef<Virtualizer<HTMLElement, HTMLElement> | undefined>(undefined)
  kept.current ??= new Virtualizer(all)
  const virtualizer = kept.current
  virtualizer.setOptions(all)
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer])
  useLayoutEffect(() => virtualizer._willUpdate())
  return { rows: virtualizer.getVirtualItems(), height: virtualizer.getTotalSize(), virtualizer }
}
