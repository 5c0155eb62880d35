import { Corruption } from '../runtime/errors.ts'
import type { Position } from './event.ts'

/** A damaged place in a segment, after which reading can continue. */
export interface Damage {
  /** The segment's file. */
  readonly path: string
  /** In the segment's text. */
  readonly offset: number
  /** The first position that cannot be read. */
  readonly position: Position
  /** The next position that can be read. It equals `position` if no event is lost, and is undefined at the end of the journal. */
  readonly next: Position | undefined
  readonly why: string
}

/** A read that needs a damaged part of the journal. */
export class JournalDamage extends Corruption {
  readonly damage: Damage

  constructor(damage: Damage, advice = '') {
    super(`${damageText(damage)}.${advice && ` ${advice}`}`)
    this.damage = damage
  }
}

export function damageText({ path, offset, position, why }: Omit<Damage, 'next'>): string {
  return `${path}, offset ${offset}, position ${position}: ${why}`
}

export const REPAIR_ADVICE =
  'With a backup or another copy of the journal, recollect repair --from <directory> replaces what is damaged.'

/** For clients, who do not learn the path. */
export function unreadableText({ position, next }: Damage): string {
  const upTo = next === undefined ? 'on' : `to ${next - 1}`
  const then = next === undefined ? '' : ` Reading can continue at position ${next}.`
  return `The events from position ${position} ${upTo} cannot be read: the journal is damaged or incomplete there.${then}`
}

/** The known damage of a journal, by position. */
export class KnownDamage {
  /** Called with damage that was not known. */
  found: (damage: Damage) => void = () => {}
  readonly #byPosition = new Map<Position, Damage>()

  get list(): readonly Damage[] {
    return [...this.#byPosition.values()].sort((a, b) => a.position - b.position)
  }

  add(damage: Damage): void {
    const isNew = !this.#byPosition.has(damage.position)
    if (isNew && this.#byPosition.size >= MOST_PLACES) return
    this.#byPosition.set(damage.position, damage)
    if (isNew) this.found(damage)
  }

  /** Forgets what was repaired. */
  remove(isRepaired: (damage: Damage) => boolean): void {
    for (const damage of this.#byPosition.values()) if (isRepaired(damage)) this.#byPosition.delete(damage.position)
  }
}

/** A journal that has more damaged places is lost as a whole. */
const MOST_PLACES = 1000
