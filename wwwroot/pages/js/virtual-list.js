// A list of any length of which only what is seen is in the document. Browsers end what scrolls at some million pixels:
// beyond that the bar stands for places in the list, and small steps move by as much as one scrolls.
import { el } from './dom.js'

const MOST_PIXELS = 4_000_000
/** Rows drawn beyond what is seen. */
const MARGIN = 4
const SETTLE_MS = 150

/**
 * @template {HTMLElement} Row
 * @param {HTMLElement} place that scrolls
 * @param {{ newRow: () => Row, show: (row: Row, index: number) => boolean, onView: (first: number, last: number) => void }} options
 *   `show` puts what is at an index into a row, and says whether that is known yet; `onView` is told which are seen
 */
export function virtualList(place, { newRow, show, onView }) {
  const layer = el('ol.rows', { role: 'list' })
  const spacer = el('div.spacer')
  place.append(layer, spacer)
  /** @type {Row[]} */
  let pool = []
  let count = 0
  let rowHeight = 28
  let viewHeight = 0
  /** How far the list is scrolled, in pixels as if it were as long as it is. */
  let offset = 0
  let lastTop = 0
  let isDrawing = false
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let settling

  place.addEventListener('scroll', scrolled, { passive: true })
  new ResizeObserver(measure).observe(place)
  measure()

  return {
    /** How many there are. */
    get count() {
      return count
    },
    /** Whether one looks at the beginning. */
    get isAtTop() {
      return offset < 1
    },
    /**
     * @param {number} now
     * @param {number} [before] so many came before those that there were: what is seen stays, unless that is the beginning
     */
    resize(now, before = 0) {
      scrolled()
      count = now
      if (before > 0 && offset >= 1) offset += before * rowHeight
      layout()
    },
    /** Draws what is seen again. */
    refresh() {
      for (const row of pool) row.dataset.state = 'old'
      draw()
    },
    /** @param {number} index is brought into view */
    reveal(index) {
      const from = index * rowHeight
      if (from < offset) offset = from
      else if (from + rowHeight > offset + viewHeight) offset = from + rowHeight - viewHeight
      layout()
    },
    /** @param {number} index @returns {Row | undefined} */
    rowAt(index) {
      return pool.find((row) => row.dataset.index === String(index))
    },
  }

  function measure() {
    const height = Number.parseFloat(getComputedStyle(place).getPropertyValue('--row')) || 28
    if (height === rowHeight && place.clientHeight === viewHeight && pool.length > 0) return
    const first = offset / rowHeight
    rowHeight = height
    viewHeight = place.clientHeight
    offset = first * rowHeight
    const wanted = Math.ceil(viewHeight / rowHeight) + 2 * MARGIN
    pool = Array.from({ length: wanted }, newRow)
    layer.replaceChildren(...pool)
    layout()
  }

  /** As far as it can be scrolled, as if it were as long as it is. */
  function reach() {
    return Math.max(0, count * rowHeight - viewHeight)
  }

  function layout() {
    const height = Math.min(MOST_PIXELS, count * rowHeight)
    spacer.style.height = `${height}px`
    offset = Math.min(offset, reach())
    settle()
    draw()
  }

  /** Puts the bar where the list is. */
  function settle() {
    const most = Math.max(0, Math.min(MOST_PIXELS, count * rowHeight) - viewHeight)
    const top = reach() === 0 ? 0 : (offset / reach()) * most
    if (Math.abs(place.scrollTop - top) > 1) place.scrollTop = top
    lastTop = place.scrollTop
  }

  /** Follows the bar. Browsers announce a scroll only with their next frame, and it must not be undone before. */
  function scrolled() {
    const top = place.scrollTop
    const step = top - lastTop
    if (step === 0) return
    lastTop = top
    const most = Math.min(MOST_PIXELS, count * rowHeight) - viewHeight
    if (reach() <= most) offset = top
    else if (top <= 0) offset = 0
    else if (top >= most - 1) offset = reach()
    else if (Math.abs(step) < viewHeight * 2) offset = Math.max(0, Math.min(reach(), offset + step))
    else offset = (top / most) * reach()
    clearTimeout(settling)
    settling = setTimeout(() => {
      if (place.scrollTop === lastTop) settle()
    }, SETTLE_MS)
    if (isDrawing) return
    isDrawing = true
    requestAnimationFrame(draw)
  }

  function draw() {
    isDrawing = false
    const first = Math.max(0, Math.floor(offset / rowHeight) - MARGIN)
    const last = Math.min(count, first + pool.length) - 1
    /** @type {Set<number>} */
    const used = new Set()
    for (let index = first; index <= last; index++) {
      const at = index % pool.length
      const row = /** @type {Row} */ (pool[at])
      used.add(at)
      row.hidden = false
      row.style.transform = `translateY(${Math.round(index * rowHeight - offset)}px)`
      if (row.dataset.index === String(index) && row.dataset.state === 'shown') continue
      row.dataset.index = String(index)
      row.setAttribute('aria-posinset', String(index + 1))
      row.setAttribute('aria-setsize', String(count))
      row.dataset.state = show(row, index) ? 'shown' : 'waiting'
    }
    pool.forEach((row, at) => {
      if (!used.has(at)) row.hidden = true
    })
    onView(first, last)
  }
}
