/** One figure a round. */
export interface Series {
  readonly name: string
  readonly unit: string
  readonly values: readonly number[]
}

/** The goal of a row: a multiple of another series, or a limit. */
export type Goal = {
  /** As it is shown. */
  readonly text: string
  readonly bound: number
  readonly direction: 'at least' | 'at most'
} & ({ readonly against: Series } | { readonly against?: undefined })

/** One line of the table. */
export interface Row {
  readonly work: string
  readonly ours: Series
  /** Whether more is better, or less. */
  readonly better: 'more' | 'less'
  readonly goals: readonly Goal[]
  /** The figures of others for the same work. */
  readonly others: readonly Series[]
  readonly note?: string
}

export interface Reached {
  readonly goal: Goal
  /** The ratio of each round, or its value where there is nothing to compare with. */
  readonly values: readonly number[]
  readonly isMet: boolean
}

export function median(values: readonly number[]): number {
  const ascending = values.toSorted((a, b) => a - b)
  const middle = ascending.length >> 1
  const upper = ascending[middle] ?? Number.NaN
  return ascending.length % 2 === 1 ? upper : ((ascending[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Round by round, as both were measured one after the other; where the other has one figure, that. */
export function ratios(ours: Series, other: Series): readonly number[] {
  return ours.values.map((value, round) => value / (other.values[round] ?? median(other.values)))
}

export function reached(row: Row): readonly Reached[] {
  return row.goals.map((goal) => {
    const values = goal.against ? ratios(row.ours, goal.against) : row.ours.values
    const middle = median(values)
    return { goal, values, isMet: goal.direction === 'at least' ? middle >= goal.bound : middle <= goal.bound }
  })
}

/** A goal as a part of another series. */
export function times(against: Series, bound: number, direction: Goal['direction'] = 'at least'): Goal {
  const sign = direction === 'at least' ? '≥' : '≤'
  return { text: `${sign} ${bound} × ${against.name}`, against, bound, direction }
}

/** A row of our own figures that must not be above a bound. */
export function boundedRow(work: string, { unit, values }: Omit<Series, 'name'>, bound: number, note?: string): Row {
  return {
    work,
    ours: { name: 'Recollect', unit, values },
    better: 'less',
    goals: [limit(`≤ ${bound} ${unit}`, bound)],
    others: [],
    ...(note !== undefined && { note }),
  }
}

export function limit(text: string, bound: number, direction: Goal['direction'] = 'at most'): Goal {
  return { text, bound, direction }
}
