import type { Socket } from 'socket.io'
import type { WebSocket } from 'ws'
import { type DomainEvent, isItemEvent, OBJECT_ID, type Position } from '../events/event.ts'
import { positioned, type Recorded } from '../events/journal.ts'
import { collectionPath, itemPath } from '../projections/address.ts'
import type { Updated } from './protocol.ts'
import { engineConnectionOf } from './socket-io-internals.ts'
import { framesOf, sendFrames } from './ws-internals.ts'

/** Separates the packets of a polling payload of Engine.IO; "4" means message. */
const NEXT_PACKET = '\x1e4'

/**
 * Notifies all clients of events. The events of one turn of the event loop are encoded and framed once, and sent to each
 * client in one write: with many clients the writes dominate the cost.
 */
export class Notifications {
  readonly #plain: ReadonlySet<WebSocket>
  readonly #socketIo: ReadonlyMap<string, Pick<Socket, 'conn'>>
  #texts: string[] = []

  constructor(plain: ReadonlySet<WebSocket>, socketIo: ReadonlyMap<string, Pick<Socket, 'conn'>>) {
    this.#plain = plain
    this.#socketIo = socketIo
  }

  tell(recorded: Recorded): void {
    if (this.#plain.size === 0 && this.#socketIo.size === 0) return
    for (const [position, event] of positioned(recorded)) {
      if (this.#texts.push(JSON.stringify(updatedOf(event, position))) === 1) setImmediate(() => this.#send())
    }
  }

  #send(): void {
    const texts = this.#texts
    this.#texts = []
    if (this.#plain.size > 0) {
      const frames = framesOf(texts)
      for (const client of this.#plain) if (client.readyState === client.OPEN) sendFrames(client, frames)
    }
    if (this.#socketIo.size > 0) {
      // Encoded as Socket.IO does: the frames for WebSocket, the joined packets for polling.
      const packets = texts.map((text) => `2["updated",${text}]`)
      const options = { wsPreEncodedFrame: [framesOf(packets.map((packet) => `4${packet}`))] }
      const payload = packets.join(NEXT_PACKET)
      for (const socket of this.#socketIo.values()) engineConnectionOf(socket).write(payload, options)
    }
  }
}

const METHODS: Readonly<Record<DomainEvent['type'], Updated['method']>> = {
  ItemCreated: 'POST',
  ItemReplaced: 'PUT',
  ItemPatched: 'PATCH',
  ItemDeleted: 'DELETE',
  ObjectCreated: 'POST',
  ObjectDeleted: 'DELETE',
  CollectionCreated: 'POST',
  CollectionRemoved: 'DELETE',
  CollectionOrdered: 'PUT',
  IdsReset: 'PUT',
}

function updatedOf(event: DomainEvent, position: Position): Updated {
  const { type, collection } = event
  const itemId = isItemEvent(event) && event.id !== OBJECT_ID ? event.id : null
  const path = itemId === null ? collectionPath(collection) : itemPath(collection, String(itemId))
  return { method: METHODS[type], path, collection, itemId, position }
}
