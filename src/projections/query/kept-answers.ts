import type { Position } from '../../events/event.ts'

/** What a query of a collection was answered with. */
export interface KeptAnswer {
  readonly text: string
  readonly total: number
  /** The header that leads to the other pages; undefined when there is no room for it. */
  readonly link: string | undefined
}

/** What is kept of a collection, all of it at one position. */
interface Kept {
  position: Position
  readonly answers: Map<string, KeptAnswer>
  /** How often a query was asked that is not kept. */
  readonly asked: Map<string, number>
  bytes: number
}

/** So often a query is asked before its answer is kept, */
const OFTEN = 4
/** among no more than so many others. */
const MOST_ASKED = 1000

/**
 * Answers to queries that many ask, or one again and again, since their collection last changed: a dashboard's, say. What is
 * asked now and then is not kept, as to keep a text and let it go costs more than to make it.
 */
export class KeptAnswers<Collection extends { readonly position: Position }> {
  readonly #mostBytes: number
  #of = new Map<Collection, Kept>()
  #bytes = 0

  constructor(bytes: number) {
    this.#mostBytes = bytes
  }

  find(collection: Collection, query: string): KeptAnswer | undefined {
    const kept = this.#of.get(collection)
    return kept?.position === collection.position ? kept.answers.get(query) : undefined
  }

  /** Keeps the answer when this query is asked often, and the collection does not change in between. */
  note(collection: Collection, query: string, position: Position, answer: KeptAnswer): void {
    const { answers, asked } = this.#at(collection, position)
    const times = (asked.get(query) ?? 0) + 1
    if (times >= OFTEN) {
      asked.delete(query)
      if (!answers.has(query)) this.#keep(collection, position, query, answer)
      return
    }
    if (asked.size >= MOST_ASKED) asked.clear()
    asked.set(query, times)
  }

  #keep(collection: Collection, position: Position, query: string, answer: KeptAnswer): void {
    const bytes = sizeOf(query, answer)
    if (bytes > this.#mostBytes) return
    if (this.#bytes + bytes > this.#mostBytes) {
      this.#of = new Map()
      this.#bytes = 0
    }
    const kept = this.#at(collection, position)
    kept.answers.set(query, answer)
    kept.bytes += bytes
    this.#bytes += bytes
  }

  #at(collection: Collection, position: Position): Kept {
    let kept = this.#of.get(collection)
    if (!kept) {
      kept = { position, answers: new Map(), asked: new Map(), bytes: 0 }
      this.#of.set(collection, kept)
    }
    if (kept.position !== position) {
      this.#bytes -= kept.bytes
      kept.bytes = 0
      kept.answers.clear()
      kept.asked.clear()
      kept.position = position
    }
    return kept
  }
}

/** As if every character took two bytes. */
function sizeOf(query: string, { text, link = '' }: KeptAnswer): number {
  return 2 * (query.length + text.length + link.length) + 200
}
