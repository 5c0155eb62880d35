import { Refusal } from '../../runtime/errors.ts'

/** 32 MiB of numbers for percentiles and increases. */
const MOST_VALUES = 4 * 1024 * 1024
/** 32 MiB of text. */
const MOST_CHARACTERS = 16 * 1024 * 1024

/** The memory that one response may use. */
export class Budget {
  #values = MOST_VALUES
  #characters = MOST_CHARACTERS

  takeValues(count: number): void {
    this.#values -= count
    if (this.#values < 0) throw tooMuch('values for percentiles and delta')
  }

  /** A negative number returns characters. */
  takeCharacters(characters: number): void {
    this.#characters -= characters
    if (this.#characters < 0) throw tooMuch('long texts')
  }
}

function tooMuch(what: string): Refusal {
  return new Refusal(
    'Invalid',
    `There are too many ${what} in one answer: ask with more filters, or for fewer groups or windows at once.`,
  )
}
