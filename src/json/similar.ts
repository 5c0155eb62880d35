/** One mistake is tolerated for each so many characters. */
const CHARACTERS_A_MISTAKE = 4
const MOST_MISTAKES = 3
/** Longer names have no similar ones. */
const MOST_CHARACTERS = 100

/** The candidate most similar to a misspelt name, without regard to case; undefined if none is similar enough. */
export function mostSimilar(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > MOST_CHARACTERS) return undefined
  let best: string | undefined
  let fewest = Math.min(MOST_MISTAKES, Math.floor(name.length / CHARACTERS_A_MISTAKE) || 1) + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - name.length) >= fewest) continue
    const mistakes = distance(name.toLowerCase(), candidate.toLowerCase())
    if (mistakes >= fewest) continue
    best = candidate
    fewest = mistakes
  }
  return best
}

/** The optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours. */
function distance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const cost = a[row - 1] === b[column - 1] ? 0 : 1
      const at = (costs: readonly number[], index: number): number => costs[index] as number
      let least = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + cost)
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (isSwap) least = Math.min(least, at(beforeLast, column - 2) + 1)
      current.push(least)
    }
    beforeLast = last
    last = current
  }
  return last[b.length] as number
}
