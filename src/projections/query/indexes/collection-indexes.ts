import type { Collection, CollectionObserver } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import { formatPath, type Path } from '../../../json/paths.ts'
import type { JsonObject } from '../../../json/value.ts'
import { atOnce, type Slices, type Steps } from '../../../slices.ts'
import { Build, firstOf, putting } from './build.ts'
import { entriesOf } from './entries.ts'
import type { FieldIndex } from './field-index.ts'
import type { Plans } from './plan.ts'

/** Whoever looks through a collection in steps and must not miss what changes meanwhile. */
export interface Follower {
  /** There is another item at the place. Its value is given unless it is long. */
  put(place: number, value: JsonObject | undefined): void
  removed(place: number): void
  /** All places are others now. */
  reordered(): void
}

/** An index in use. */
export interface Kept {
  readonly collection: string
  readonly name: string
  readonly index: FieldIndex
  uses: number
  /** Counts on with each use of any index. */
  usedAt: number
}

/** Paths that are remembered to have been asked for, of a collection too small to be indexed at once. */
const REMEMBERED = 100

/** An item of more characters does not reach the indexes with its write, but in steps, before they are next used. */
const LONG = 4096
/** So does one whose place has more entries in an index. */
const MANY_ENTRIES = 100

/** The indexes of one collection; every change of it reaches them before anybody can ask again. */
export class CollectionIndexes implements CollectionObserver {
  readonly collection: Collection
  readonly plans: Plans = new Map()
  /** Another with every change of what the indexes hold. */
  version = 0
  readonly #slices: Slices
  readonly #kept = new Map<string, Kept>()
  readonly #builds = new Map<string, { readonly build: Build; readonly done: Promise<void> }>()
  readonly #followers = new Set<Follower>()
  /** How many queries are under way that need an index, by its name. */
  readonly #needed = new Map<string, number>()
  readonly #asked = new Set<string>()
  /** Places whose items the indexes do not have yet. */
  readonly #late = new Set<number>()
  #catchingUp: Steps<void> | undefined

  constructor(collection: Collection, slices: Slices) {
    this.collection = collection
    this.#slices = slices
    collection.observe(this)
  }

  get(path: Path): Kept | undefined {
    return this.#kept.get(nameOf(path))
  }

  kept(): Iterable<Kept> {
    return this.#kept.values()
  }

  /** Whether the path was asked for before. */
  wasAsked(path: Path): boolean {
    const name = nameOf(path)
    if (this.#asked.has(name)) return true
    if (this.#asked.size >= REMEMBERED) this.#asked.clear()
    this.#asked.add(name)
    return false
  }

  /** Resolves when each of the paths has had its index; those that nobody builds yet are built in one pass. */
  async build(paths: readonly Path[]): Promise<void> {
    const missing = paths.filter((path) => !this.#kept.has(nameOf(path)) && !this.#builds.has(nameOf(path)))
    if (missing.length > 0) {
      const build = new Build(missing)
      const names = missing.map(nameOf)
      const steps = function* (this: CollectionIndexes) {
        try {
          for (const index of yield* build.steps(this.collection)) this.#keep(index)
        } finally {
          for (const name of names) this.#builds.delete(name)
        }
      }
      const done = Promise.resolve(this.#slices.run(() => steps.call(this)))
      for (const name of names) if (!this.#kept.has(name)) this.#builds.set(name, { build, done })
    }
    await Promise.all(paths.map((path) => this.#builds.get(nameOf(path))?.done))
  }

  /** Until it is called back, the paths' indexes are not dropped. */
  need(paths: readonly Path[]): () => void {
    const names = paths.map(nameOf)
    for (const name of names) this.#needed.set(name, (this.#needed.get(name) ?? 0) + 1)
    return () => {
      for (const name of names) {
        const left = (this.#needed.get(name) ?? 1) - 1
        if (left > 0) this.#needed.set(name, left)
        else this.#needed.delete(name)
      }
    }
  }

  canDrop({ name }: Kept): boolean {
    return !this.#needed.has(name)
  }

  drop({ name }: Kept): void {
    this.plans.clear()
    this.#kept.delete(name)
    if (this.#kept.size === 0) this.#late.clear()
  }

  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  get areLate(): boolean {
    return this.#late.size > 0
  }

  /** A step towards indexes that have all items; whoever needs them does the next one. */
  catchUp(): void {
    this.#catchingUp ??= this.#catchUp()
    if (this.#catchingUp.next().done) this.#catchingUp = undefined
  }

  put(place: number, item: Item): void {
    this.version++
    if (this.#kept.size + this.#builds.size + this.#followers.size === 0) return
    const short = item.text.length <= LONG ? item.value : undefined
    if (short && !this.#isLate(place)) {
      for (const { index } of this.#kept.values()) index.put(place, atOnce(entriesOf(short, index.path)))
    } else if (this.#kept.size > 0) this.#late.add(place)
    for (const build of this.#underWay()) build.changed(place)
    for (const follower of this.#followers) follower.put(place, short)
  }

  removed(place: number): void {
    this.version++
    if (this.#isLate(place)) this.#late.add(place)
    else for (const { index } of this.#kept.values()) index.remove(place)
    for (const build of this.#underWay()) build.changed(place)
    for (const follower of this.#followers) follower.removed(place)
  }

  reordered(): void {
    this.plans.clear()
    this.#kept.clear()
    this.#late.clear()
    for (const build of this.#underWay()) build.reordered()
    for (const follower of this.#followers) follower.reordered()
  }

  #isLate(place: number): boolean {
    if (this.#late.has(place)) return true
    for (const { index } of this.#kept.values()) {
      if ((index.slotsOf(place)?.length ?? 0) > MANY_ENTRIES) return true
    }
    return false
  }

  *#catchUp(): Steps<void> {
    for (let place = firstOf(this.#late); place !== undefined; place = firstOf(this.#late)) {
      const indexes = Array.from(this.#kept.values(), ({ index }) => index)
      if (yield* putting(indexes, this.collection, place)) this.#late.delete(place)
      this.version++
      yield
    }
  }

  #underWay(): Iterable<Build> {
    if (this.#builds.size === 0) return []
    return new Set(Array.from(this.#builds.values(), ({ build }) => build))
  }

  #keep(index: FieldIndex): void {
    this.plans.clear()
    const name = nameOf(index.path)
    this.#kept.set(name, { collection: this.collection.name, name, index, uses: 0, usedAt: 0 })
  }
}

export function nameOf(path: Path): string {
  return formatPath(path)
}
