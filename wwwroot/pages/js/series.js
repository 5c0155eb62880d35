// The readings of one sensor as columns of numbers, in the order of their times: a hundred thousand cost a few megabytes,
// and what a chart draws of them is picked in a millisecond or two.

/** A gap is where nothing came for so many times the usual. */
const GAP_TIMES = 5
const GAP_MS = 3000
const SAMPLED = 500

export class Series {
  /** Milliseconds since 1970. */
  times = new Float64Array(1024)
  /** By what was measured; NaN where a reading has no such value. @type {Map<string, Float64Array>} */
  columns = new Map()
  length = 0
  #usual = 0
  #sampledAt = 0

  /**
   * @param {number} time
   * @param {Readonly<Record<string, unknown>>} values those that are numbers are kept
   */
  add(time, values) {
    if (this.length === this.times.length) this.#grow()
    const isLast = this.length === 0 || time >= /** @type {number} */ (this.times[this.length - 1])
    const place = isLast ? this.length : this.countUpTo(time)
    if (!isLast)
      for (const column of [this.times, ...this.columns.values()]) column.copyWithin(place + 1, place, this.length)
    this.times[place] = time
    for (const column of this.columns.values()) column[place] = Number.NaN
    for (const [name, value] of Object.entries(values)) {
      if (typeof value === 'number') this.#column(name)[place] = value
    }
    this.length++
  }

  /**
   * Readings that are not later than those that there are.
   * @param {readonly { time: number, values: Readonly<Record<string, unknown>> }[]} earlier ascending
   */
  prepend(earlier) {
    const { length } = this
    const more = earlier.length
    while (this.times.length < length + more) this.#grow()
    for (const column of [this.times, ...this.columns.values()]) column.copyWithin(more, 0, length)
    for (const column of this.columns.values()) column.fill(Number.NaN, 0, more)
    this.length = length + more
    earlier.forEach(({ time, values }, place) => {
      this.times[place] = time
      for (const [name, value] of Object.entries(values)) {
        if (typeof value === 'number') this.#column(name)[place] = value
      }
    })
  }

  /** @param {string} name */
  #column(name) {
    const known = this.columns.get(name)
    if (known) return known
    const column = new Float64Array(this.times.length).fill(Number.NaN)
    this.columns.set(name, column)
    return column
  }

  #grow() {
    const size = this.times.length * 2
    /** @param {Float64Array} column */
    const grown = (column) => {
      const larger = new Float64Array(size).fill(Number.NaN)
      larger.set(column)
      return larger
    }
    this.times = grown(this.times)
    for (const [name, column] of this.columns) this.columns.set(name, grown(column))
  }

  /**
   * How many readings there are up to a time.
   * @param {number} time
   */
  countUpTo(time) {
    let low = 0
    let high = this.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (/** @type {number} */ (this.times[middle]) <= time) low = middle + 1
      else high = middle
    }
    return low
  }

  /**
   * The reading nearest to a time.
   * @param {number} time
   * @param {number} end how many of the readings count
   * @returns {number} its place, -1 for none
   */
  nearest(time, end = this.length) {
    if (end === 0) return -1
    const after = Math.min(this.countUpTo(time), end - 1)
    const before = Math.max(0, after - 1)
    return time - this.#time(before) < this.#time(after) - time ? before : after
  }

  /** @param {number} index */
  #time(index) {
    return /** @type {number} */ (this.times[index])
  }

  /** From which distance on two readings have a gap between them, in milliseconds. */
  get gap() {
    if (this.length > this.#sampledAt * 1.1 + 10) {
      const stride = Math.max(1, Math.floor(this.length / SAMPLED))
      const distances = []
      for (let index = 1; index < this.length; index += stride)
        distances.push(this.#time(index) - this.#time(index - 1))
      distances.sort((a, b) => a - b)
      this.#usual = distances[distances.length >> 1] ?? 0
      this.#sampledAt = this.length
    }
    return Math.max(GAP_MS, GAP_TIMES * this.#usual)
  }

  /**
   * What a chart needs to look as if all was drawn: of each slot of time the first and the last reading, and the least
   * and the greatest of each column.
   * @param {readonly string[]} names
   * @param {number} from
   * @param {number} to
   * @param {number} slots
   * @returns {[number[], ...(number | null)[][]]} times in seconds, then the columns; null where there is a gap
   */
  pick(names, from, to, slots) {
    const columns = names.map((name) => this.columns.get(name) ?? new Float64Array(0))
    const first = Math.max(0, this.countUpTo(from) - 1)
    const end = Math.min(this.length, this.countUpTo(to) + 1)
    const { gap, times } = this
    /** @type {number[]} */
    const x = []
    /** @type {(number | null)[][]} */
    const y = columns.map(() => [])
    const width = Math.max(1, (to - from) / slots)
    /** @param {number} index */
    const put = (index) => {
      x.push(this.#time(index) / 1000)
      columns.forEach((column, at) => {
        const value = column[index]
        y[at]?.push(value === undefined || Number.isNaN(value) ? null : value)
      })
    }
    for (let index = first; index < end; ) {
      if (index > first && this.#time(index) - this.#time(index - 1) > gap) {
        x.push((this.#time(index - 1) + 1) / 1000)
        for (const column of y) column.push(null)
      }
      const until = this.#time(index) + width
      let last = index
      while (last + 1 < end && (times[last + 1] ?? 0) < until && (times[last + 1] ?? 0) - (times[last] ?? 0) <= gap)
        last++
      for (const one of extremes(columns, index, last)) put(one)
      index = last + 1
    }
    return [x, ...y]
  }
}

/**
 * @param {readonly Float64Array[]} columns
 * @param {number} first
 * @param {number} last
 * @returns {readonly number[]} places, ascending
 */
function extremes(columns, first, last) {
  if (last - first < 4) return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  const places = new Set([first, last])
  for (const column of columns) {
    let least = -1
    let greatest = -1
    for (let index = first; index <= last; index++) {
      const value = /** @type {number} */ (column[index])
      if (Number.isNaN(value)) continue
      if (least < 0 || value < /** @type {number} */ (column[least])) least = index
      if (greatest < 0 || value > /** @type {number} */ (column[greatest])) greatest = index
    }
    if (least >= 0) places.add(least).add(greatest)
  }
  return [...places].sort((a, b) => a - b)
}
