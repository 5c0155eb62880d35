import type { PinnedCollection } from '../collections/stored-items.ts'
import type { Position } from '../events/event.ts'
import type { Pin } from '../store/versions.ts'

/** The collections at one position, by name, until closed. */
export class Snapshot extends Map<string, PinnedCollection> {
  readonly position: Position
  readonly #pin: Pin

  constructor(pin: Pin, collections: Iterable<readonly [string, PinnedCollection]>) {
    super(collections)
    this.position = pin.position
    this.#pin = pin
    forgotten.register(this, pin)
  }

  close(): void {
    this.#pin.release()
  }
}

/** Releases the pin of a snapshot that was garbage-collected without close(). */
const forgotten = new FinalizationRegistry<Pin>((pin) => pin.release())
