// Tiles in rows and columns, of which only those that are seen are in the document. The page scrolls, not the grid.

/** Rows beyond what is seen. */
const MARGIN = 2

/**
 * @template {{ element: HTMLElement, remove: () => void }} Tile
 * @param {HTMLElement} place as high as all tiles
 * @param {HTMLElement} list the tiles that are seen, a CSS grid with rows of one height
 * @param {{ newTile: (key: string) => Tile, onView: (keys: readonly string[]) => void }} options
 */
export function tileGrid(place, list, { newTile, onView }) {
  /** @type {readonly string[]} */
  let keys = []
  /** Those in the document. @type {Map<string, Tile>} */
  const tiles = new Map()
  let rowHeight = 0
  let isDrawing = false
  new ResizeObserver(drawSoon).observe(place)
  addEventListener('scroll', drawSoon, { passive: true })
  addEventListener('resize', drawSoon)
  return {
    tiles,
    /** @param {readonly string[]} now in their order */
    set(now) {
      keys = now
      draw()
    },
  }

  function drawSoon() {
    if (isDrawing) return
    isDrawing = true
    requestAnimationFrame(() => {
      isDrawing = false
      draw()
    })
  }

  function draw() {
    const style = getComputedStyle(list)
    const columns = Math.max(1, style.gridTemplateColumns.split(' ').length)
    rowHeight = Number.parseFloat(style.gridAutoRows) + Number.parseFloat(style.rowGap)
    const rows = Math.ceil(keys.length / columns)
    const height = `${Math.max(0, rows * rowHeight - Number.parseFloat(style.rowGap))}px`
    if (place.style.height !== height) place.style.height = height
    const { top } = place.getBoundingClientRect()
    const first = Math.max(0, Math.min(rows - 1, Math.floor(-top / rowHeight) - MARGIN))
    const last = Math.min(rows, Math.ceil((innerHeight - top) / rowHeight) + MARGIN)
    list.style.transform = `translateY(${first * rowHeight}px)`
    const seen = keys.slice(first * columns, last * columns)
    fill(seen, first * columns)
    onView(seen)
  }

  /**
   * Tiles that stay are not moved, so that the one with the focus keeps it.
   * @param {readonly string[]} seen
   * @param {number} before so many are before the first of these
   */
  function fill(seen, before) {
    const wanted = new Set(seen)
    for (const [key, tile] of tiles) {
      if (wanted.has(key)) continue
      tile.element.remove()
      tile.remove()
      tiles.delete(key)
    }
    seen.forEach((key, index) => {
      let tile = tiles.get(key)
      if (!tile) {
        tile = newTile(key)
        tiles.set(key, tile)
      }
      const { element } = tile
      if (list.children[index] !== element) list.insertBefore(element, list.children[index] ?? null)
      element.setAttribute('aria-posinset', String(before + index + 1))
      element.setAttribute('aria-setsize', String(keys.length))
    })
  }
}
