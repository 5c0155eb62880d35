import { Refusal } from '../../errors.ts'

export function tookTooLong(seconds: number): Refusal {
  return new Refusal(
    'Unavailable',
    `The query was given up after ${seconds} s (Limits.ScanSeconds), as it has to look through too many items. Fields that are ` +
      'filtered or sorted by a second time get an index: ask again later, or filter by fields that have one.',
  )
}
