/** A parameter as sent, for links, and decoded. */
export interface Parameter {
  readonly raw: string
  readonly name: string
  readonly value: string
}

/** The two parameters that count pages or items. */
export interface Family {
  readonly start: string
  readonly size: string
  /** Whether `start` counts pages, from 1, or items, from 0. */
  readonly pages: boolean
  /** `size` is the index behind the last item. */
  readonly isEnd?: boolean
  /** Items of a page when no size is given. */
  readonly initial?: number
}
