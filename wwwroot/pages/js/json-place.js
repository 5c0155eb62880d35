// Where in a text a value stands: so that a fault, which the server names by a JSON Pointer, can be gone to.

/**
 * @param {string} text valid JSON
 * @param {string} pointer RFC 6901
 * @returns {{ from: number, to: number } | undefined} the value, or the nearest one around it that there is
 */
export function placeOf(text, pointer) {
  const wanted = pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
  /** @type {{ from: number, to: number } | undefined} */
  let found
  let deepest = -1
  let at = 0
  value(0, true)
  return found

  /**
   * @param {number} depth
   * @param {boolean} isOnWay
   */
  function value(depth, isOnWay) {
    space()
    const from = at
    const open = text[at]
    if (open === '{' || open === '[') members(depth, isOnWay, open === '{')
    else if (open === '"') string()
    else while (at < text.length && !/[\s,\]}]/.test(text[at] ?? '')) at++
    if (isOnWay && depth > deepest) {
      deepest = depth
      found = { from, to: at }
    }
    space()
  }

  /**
   * @param {number} depth
   * @param {boolean} isOnWay
   * @param {boolean} isObject
   */
  function members(depth, isOnWay, isObject) {
    at++
    space()
    for (let index = 0; at < text.length && !/[\]}]/.test(text[at] ?? ''); index++) {
      const key = isObject ? string() : String(index)
      space()
      if (text[at] === ':') at++
      value(depth + 1, isOnWay && key === wanted[depth])
      if (text[at] === ',') at++
      space()
    }
    at++
  }

  function string() {
    const from = at++
    while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
    at++
    return String(JSON.parse(text.slice(from, at)))
  }

  function space() {
    while (/\s/.test(text[at] ?? '')) at++
  }
}
