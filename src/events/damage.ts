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

/** The known damage of a journal. */
export class KnownDamage {
  /** Called with damage that was not known. */
  found: (damage: Damage) => void = () => {}
  #places: readonly Damage[] = []

  /** By position. */
  get list(): readonly Damage[] {
    return this.#places
  }

  /** A read may find a part of a place only. */
  add(damage: Damage): void {
    const others = this.#places.filter((place) => !includes(damage, place))
    const isNew = others.length === this.#places.length
    if (isNew && (others.length >= MOST_PLACES || others.some((place) => includes(place, damage)))) return
    this.#places = [...others, damage].sort((a, b) => a.position - b.position)
    if (isNew) this.found(damage)
  }

  /** Forgets what was repaired. */
  remove(isRepaired: (damage: Damage) => boolean): void {
    this.#places = this.#places.filter((place) => !isRepaired(place))
  }
}

/** A journal that has more damaged places is lost as a whole. */
export const MOST_PLACES = 1000

function includes({ position, next = Number.POSITIVE_INFINITY }: Damage, part: Damage): boolean {
  return part.position === position || (part.position > position && part.position < next)
}
