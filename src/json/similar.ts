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
  // Invariant: `last[n]` is the distance of the first `row - 1` characters of `a` from the first n of `b`.
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const replaced = (last[column - 1] as number) + (a[row - 1] === b[column - 1] ? 0 : 1)
      let least = Math.min((last[column] as number) + 1, (current[column - 1] as number) + 1, replaced)
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (isSwap) least = Math.min(least, (beforeLast[column - 2] as number) + 1)
      current.push(least)
    }
    beforeLast = last
    last = current
  }
  return last[b.length] as number
}
