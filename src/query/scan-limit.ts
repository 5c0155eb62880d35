import { Refusal } from '../runtime/errors.ts'

export function scanTimeout(seconds: number): Refusal {
  return new Refusal(
    'Unavailable',
    `The query was aborted after ${seconds} s (Limits.ScanSeconds), because it has to scan too many items. Fields that are ` +
      'filtered or sorted by a second time get an index: try again later, or filter by indexed fields.',
  )
}
