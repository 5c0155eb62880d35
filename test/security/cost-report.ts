/** In milliseconds: the longest block of the event loop, in processor time, and how long it all took. */
export interface Cost {
  readonly block: number
  readonly ms: number
  /** What the server must not have answered. */
  readonly failures: readonly string[]
}

interface Of {
  readonly what: string
  readonly shape: string
  readonly bytes: number
  /** Of the round, in which it can be seen again. */
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

  /** The longest block by a harmless request of much. */
  get harmless(): number {
    return this.#harmless
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
        // Of less the measure tells little.
        less && less.block > 1 ? (Math.log(block / less.block) / Math.log(bytes / less.bytes)).toFixed(2) : '',
        String(seed),
      ])
    const head = ['operation', 'shape', 'bytes', 'ms', 'block', 'of ¼', 'growth', 'seed']
    const widths = head.map((_, column) => Math.max(...[head, ...lines].map((line) => (line[column] as string).length)))
    const laidOut = [head, ...lines].map((line) =>
      line
        .map((cell, column) =>
          column < 2 ? cell.padEnd(widths[column] as number) : cell.padStart(widths[column] as number),
        )
        .join('  '),
    )
    return [
      `${this.#measured} measured; a harmless request blocks for ${this.#harmless.toFixed(1)} ms`,
      ...laidOut,
    ].join('\n')
  }
}
