/** In milliseconds of processor time: the longest block of the event loop, and all that it took. */
export interface Cost {
  readonly block: number
  readonly ms: number
  /** The responses that the server must not have sent. */
  readonly failures: readonly string[]
}

interface Of {
  readonly what: string
  readonly shape: string
  readonly bytes: number
  /** The seed of the round, which repeats it. */
  readonly seed: number
}

export interface Measured extends Of, Cost {
  /** The same at another size. */
  readonly less: { readonly bytes: number; readonly block: number } | undefined
}

/** The costliest of each operation and shape. */
export class Costs {
  readonly #worst = new Map<string, Measured>()
  readonly failed: string[] = []
  #measured = 0
  #harmless = Number.POSITIVE_INFINITY

  note(of: Of, cost: Cost, less?: { readonly bytes: number } & Cost): void {
    this.#measured++
    for (const failure of cost.failures) this.failed.push(`${of.what}, ${of.shape}, seed ${of.seed}: ${failure}`)
    const name = `${of.what}\n${of.shape}`
    const known = this.#worst.get(name)
    if (!known || known.block < cost.block) this.#worst.set(name, { ...of, ...cost, less })
  }

  noteHarmless(block: number): void {
    this.#harmless = Math.min(this.#harmless, block)
  }

  sorted(): readonly Measured[] {
    return [...this.#worst.values()].sort((a, b) => b.block - a.block)
  }

  /** The costliest; `growth` is the exponent with which the block grows by the size, where that can be told. */
  table(rows: number): string {
    const lines = this.sorted()
      .slice(0, rows)
      .map(({ what, shape, bytes, block, ms, less, seed }) => [
        what,
        shape,
        String(Math.round(bytes)),
        ms.toFixed(1),
        block.toFixed(1),
        less ? less.block.toFixed(1) : '',
        // Smaller measurements say little.
        less && less.block > 1 ? (Math.log(block / less.block) / Math.log(bytes / less.bytes)).toFixed(2) : '',
        String(seed),
      ])
    const head = ['operation', 'shape', 'bytes', 'ms', 'block', 'of ¼', 'growth', 'seed']
    return [
      `${this.#measured} measured; a harmless request blocks for ${this.#harmless.toFixed(1)} ms`,
      ...laidOut([head, ...lines]),
    ].join('\n')
  }
}

/** The cost of each operation with each shape at three sizes, each twice the one before. */
export class Growth {
  readonly #rows: { readonly what: string; readonly shape: string; readonly costs: readonly Cost[] }[] = []

  note(what: string, shape: string, costs: readonly Cost[]): void {
    this.#rows.push({ what, shape, costs })
  }

  /** Those that grow most, of those that cost enough for it to be told; `growth` is the exponent, from the first size to the last. */
  table(rows: number): string {
    const told = this.#rows.flatMap((row) => {
      const first = row.costs[0]?.ms ?? 0
      const last = row.costs.at(-1)?.ms ?? 0
      return last < TOLD_MS ? [] : [{ ...row, growth: Math.log(last / first) / Math.log(2 ** (row.costs.length - 1)) }]
    })
    told.sort((a, b) => b.growth - a.growth)
    const lines = told.slice(0, rows).map(({ what, shape, costs, growth }) => {
      const [block, ms] = (['block', 'ms'] as const).map((name) => costs.map((cost) => cost[name].toFixed(1)))
      return [what, shape, ...(block as string[]), ...(ms as string[]), growth.toFixed(2)]
    })
    const head = ['operation', 'shape', 'block of n', '2n', '4n', 'ms of n', '2n', '4n', 'growth']
    return [
      `${this.#rows.length} measured at three sizes, of which ${told.length} take ${TOLD_MS} ms or longer`,
      ...laidOut([head, ...lines]),
    ].join('\n')
  }
}

/** Below this cost, garbage collection and compilation hide the growth. */
const TOLD_MS = 20

function laidOut(lines: readonly (readonly string[])[]): readonly string[] {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => (line[column] as string).length)))
  return lines.map((line) =>
    line
      .map((cell, column) =>
        column < 2 ? cell.padEnd(widths[column] as number) : cell.padStart(widths[column] as number),
      )
      .join('  '),
  )
}
