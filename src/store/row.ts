export interface Row {
  readonly key: Buffer
  readonly value: Buffer
}

export interface RowsOptions {
  readonly limit?: number
  /** Stops after so many bytes of values. */
  readonly bytes?: number
  readonly reverse?: boolean
}
