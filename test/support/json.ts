import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import type { Random } from './random.ts'

/** Any JSON whose texts and names are made of some. */
export function anyValue(random: Random, texts: readonly string[], depth: number): JsonValue {
  switch (random.integer(depth > 0 ? 6 : 4)) {
    case 0:
      return random.integer(1000) / 7
    case 1:
      return random.chance(0.5) ? null : random.chance(0.5)
    case 2:
      return random.pick(texts)
    case 3:
      return random.pick(texts) + random.pick(texts)
    case 4:
      return Array.from({ length: random.integer(4) }, () => anyValue(random, texts, depth - 1))
    default:
      return anyObject(random, texts, depth - 1)
  }
}

export function anyObject(random: Random, texts: readonly string[], depth: number): JsonObject {
  return Object.fromEntries(
    Array.from({ length: random.integer(4) }, () => [random.pick(texts), anyValue(random, texts, depth)]),
  )
}
