import { Refusal } from '../runtime/errors.ts'

export function diskFull(): Refusal {
  return new Refusal('DiskFull', 'The disk of this node is full. Nothing was stored; reads continue.')
}

/** Resolves with the result of `work`, or with undefined once the disk is full, which is checked every `lookMs`. */
export async function unlessFull<Result>(
  work: Promise<Result>,
  hasRoom: () => boolean,
  lookMs: number,
): Promise<Result | undefined> {
  let looking: NodeJS.Timeout | undefined
  const full = new Promise<undefined>((resolve) => {
    looking = setInterval(() => {
      if (!hasRoom()) resolve(undefined)
    }, lookMs)
  })
  try {
    return await Promise.race([work, full])
  } finally {
    clearInterval(looking)
  }
}
