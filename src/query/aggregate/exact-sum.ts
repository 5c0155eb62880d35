/**
 * An exact sum of numbers, rounded once. So it does not depend on their order, which is that of the collection or of an
 * index. It is kept as a list of numbers whose bits do not overlap (Shewchuk, "Adaptive Precision Floating-Point
 * Arithmetic", 1997, as in Python's `math.fsum`). Nothing overflows, as no item has a number beyond 2 ** 53.
 */
export class ExactSum {
  /** In ascending order. Their exact sum is that of all numbers. */
  readonly #parts: number[] = []

  get parts(): readonly number[] {
    return this.#parts
  }

  add(number: number): void {
    const parts = this.#parts
    let carried = number
    let kept = 0
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index] as number
      const sum = carried + part
      const lost = Math.abs(carried) < Math.abs(part) ? carried - (sum - part) : part - (sum - carried)
      if (lost !== 0) parts[kept++] = lost
      carried = sum
    }
    parts[kept] = carried
    if (parts.length > kept + 1) parts.length = kept + 1
  }

  /** Adds an exact product (Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971). */
  addProduct(a: number, b: number): void {
    const product = a * b
    const [highA, highB] = [highBits(a), highBits(b)]
    const [lowA, lowB] = [a - highA, b - highB]
    this.add(product)
    this.add(lowA * lowB - (product - highA * highB - lowA * highB - highA * lowB))
  }

  get total(): number {
    const parts = this.#parts
    let at = parts.length - 1
    let sum = parts[at] ?? 0
    let lost = 0
    while (at > 0 && lost === 0) {
      const before = sum
      const part = parts[--at] as number
      sum = before + part
      lost = part - (sum - before)
    }
    // If the sum is half way between two doubles, the smaller parts decide.
    const next = parts[at - 1]
    if (next === undefined || lost === 0 || lost < 0 !== next < 0) return sum
    const twice = 2 * lost
    const other = sum + twice
    return other - sum === twice ? other : sum
  }
}

/** The upper 26 bits of a double: products of halves are exact. */
function highBits(number: number): number {
  const scaled = number * (2 ** 27 + 1)
  return scaled - (scaled - number)
}
