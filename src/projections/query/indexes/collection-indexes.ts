import type { Collection, CollectionObserver } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import { formatPath, type Path } from '../../../json/paths.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Slices } from '../../../slices.ts'
import { Build } from './build.ts'
import type { FieldIndex } from './field-index.ts'
import type { Plans } from './plan.ts'

/** Whoever looks through a collection in steps and must not miss what changes meanwhile. */
export interface Follower {
  put(place: number, value: JsonObject): void
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
  }

  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  put(place: number, item: Item): void {
    this.version++
    if (this.#kept.size + this.#builds.size + this.#followers.size === 0) return
    const { value } = item
    for (const { index } of this.#kept.values()) index.put(place, index.entriesOf(value))
    for (const build of this.#underWay()) build.put(place, value)
    for (const follower of this.#followers) follower.put(place, value)
  }

  removed(place: number): void {
    this.version++
    for (const { index } of this.#kept.values()) index.remove(place)
    for (const build of this.#underWay()) build.removed(place)
    for (const follower of this.#followers) follower.removed(place)
  }

  reordered(): void {
    this.plans.clear()
    this.#kept.clear()
    for (const build of this.#underWay()) build.reordered()
    for (const follower of this.#followers) follower.reordered()
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
