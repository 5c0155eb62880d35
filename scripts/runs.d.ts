/** One test at its larger sizes: `test` is the pattern of its name within `file`. */
export interface Run {
  readonly about: string
  readonly file: string
  readonly test?: string
}

export const RUNS: Readonly<Record<string, Run>>
