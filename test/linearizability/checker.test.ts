import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { answerOf, check, describe, type State } from './checker.ts'
import { type Answer, type Fields, History, type Operation, type Request } from './history.ts'

const tagOf = (text: string): string => `"${text}"`
const textOf = (fields: Fields): string => JSON.stringify({ id: 'x', ...fields })
const tag = (fields: Fields): string => tagOf(textOf(fields))

interface Step {
  readonly client: number
  readonly item: string
  readonly request?: Request
  readonly answer?: Answer
}

/** The steps of a client; steps of several clients may lie between a request and its response. */
function client(number: number, item = 'x') {
  return {
    asks: (request: Request): readonly Step[] => [{ client: number, item, request }],
    gets: (answer: Answer): readonly Step[] => [{ client: number, item, answer }],
    does: (request: Request, answer: Answer): readonly Step[] => [
      { client: number, item, request },
      { client: number, item, answer },
    ],
  }
}

const ann = client(1)
const bob = client(2)
const cid = client(3)

const get: Request = { method: 'GET' }
const remove: Request = { method: 'DELETE' }
const put = (n: number, conditions: Partial<Request> = {}): Request => ({ method: 'PUT', body: { n }, ...conditions })
const patch = (body: Fields, conditions: Partial<Request> = {}): Request => ({ method: 'PATCH', body, ...conditions })
const post = (n: number): Request => ({ method: 'POST', body: { n } })
const created = (fields: Fields): Answer => ({ status: 201, tag: tag(fields) })
const stored = (fields: Fields): Answer => ({ status: 204, tag: tag(fields) })
const found = (fields: Fields): Answer => ({ status: 200, tag: tag(fields), text: textOf(fields) })
const removed: Answer = { status: 204 }
const missing: Answer = { status: 404 }
const failed: Answer = { status: 412 }
const exists: Answer = { status: 409 }
const full: Answer = { status: 507 }

function violationIn(steps: readonly (readonly Step[])[], initial: State) {
  const history = new History()
  const waiting = new Map<number, number>()
  for (const { client: number, item, request, answer } of steps.flat()) {
    if (request) waiting.set(number, history.call(number, item, request))
    if (answer) history.answer(waiting.get(number) as number, answer)
  }
  return check(history, (item) => (item === 'x' ? initial : undefined), tagOf)
}

/** From an item that does not exist. */
const fromNothing = {
  explained: (...steps: readonly (readonly Step[])[]) => explained(steps, undefined),
  violated: (...steps: readonly (readonly Step[])[]) => violated(steps, undefined),
}

/** From the item `{n: 0}`. */
const fromZero = {
  explained: (...steps: readonly (readonly Step[])[]) => explained(steps, textOf({ n: 0 })),
  violated: (...steps: readonly (readonly Step[])[]) => violated(steps, textOf({ n: 0 })),
}

function explained(steps: readonly (readonly Step[])[], initial: State): void {
  const violation = violationIn(steps, initial)
  assert.equal(violation && describe(violation), undefined)
}

function violated(steps: readonly (readonly Step[])[], initial: State): void {
  assert.ok(violationIn(steps, initial), 'an order was found that explains it')
}

test('a sequence of operations that each see the one before is linearizable', () => {
  fromNothing.explained(
    ann.does(get, missing),
    ann.does(put(1), created({ n: 1 })),
    bob.does(get, found({ n: 1 })),
    bob.does(put(2, { ifMatch: tag({ n: 1 }) }), stored({ n: 2 })),
    ann.does(put(3, { ifMatch: tag({ n: 1 }) }), failed),
    ann.does(patch({ m: 4 }), stored({ n: 2, m: 4 })),
    bob.does(patch({ n: null }), stored({ m: 4 })),
    cid.does(remove, removed),
    ann.does(remove, missing),
    bob.does(post(5), created({ n: 5 })),
    bob.does(post(6), exists),
    ann.does(put(7, { ifNoneMatch: '*' }), failed),
    ann.does({ method: 'GET', ifNoneMatch: tag({ n: 5 }) }, { status: 304, tag: tag({ n: 5 }) }),
  )
})

test('a read may or may not see a concurrent write, in either order of the responses', () => {
  for (const seen of [0, 1]) {
    fromZero.explained(ann.asks(put(1)), bob.does(get, found({ n: seen })), ann.gets(stored({ n: 1 })))
    fromZero.explained(bob.asks(get), ann.does(put(1), stored({ n: 1 })), bob.gets(found({ n: seen })))
  }
})

test('a stale read is detected: it misses an acknowledged write', () => {
  fromZero.violated(ann.does(put(1), stored({ n: 1 })), bob.does(get, found({ n: 0 })))
})

test('a read that goes back is detected: a concurrent write was seen before and then not', () => {
  fromZero.violated(
    ann.asks(put(1)),
    bob.does(get, found({ n: 1 })),
    cid.does(get, found({ n: 0 })),
    ann.gets(stored({ n: 1 })),
  )
})

test('two concurrent reads may see two writes in one order only', () => {
  const writes = [ann.asks(put(1)), client(4).asks(put(2))]
  const answers = [ann.gets(stored({ n: 1 })), client(4).gets(stored({ n: 2 }))]
  const reads = (first: number, second: number) => [
    bob.does(get, found({ n: first })),
    cid.does(get, found({ n: second })),
    bob.does(get, found({ n: second })),
  ]
  fromZero.explained(...writes, ...reads(1, 2), ...answers)
  fromZero.explained(...writes, ...reads(2, 1), ...answers)
  fromZero.violated(...writes, ...reads(1, 2), cid.does(get, found({ n: 1 })), ...answers)
})

test('a lost update is detected: two patches succeed, and one of them is missing', () => {
  const both = [ann.asks(patch({ a: 1 })), bob.asks(patch({ b: 2 }))]
  fromZero.explained(
    ...both,
    ann.gets(stored({ n: 0, a: 1 })),
    bob.gets(stored({ n: 0, a: 1, b: 2 })),
    cid.does(get, found({ n: 0, a: 1, b: 2 })),
  )
  fromZero.violated(...both, ann.gets(stored({ n: 0, a: 1 })), bob.gets(stored({ n: 0, b: 2 })))
  fromZero.violated(
    ...both,
    ann.gets(stored({ n: 0, a: 1 })),
    bob.gets(stored({ n: 0, a: 1, b: 2 })),
    cid.does(get, found({ n: 0, a: 1 })),
  )
})

test('two successful writes with one If-Match are detected', () => {
  const ifMatch = tag({ n: 0 })
  const both = [ann.asks(put(1, { ifMatch })), bob.asks(put(2, { ifMatch }))]
  fromZero.explained(...both, ann.gets(failed), bob.gets(stored({ n: 2 })))
  fromZero.violated(...both, ann.gets(stored({ n: 1 })), bob.gets(stored({ n: 2 })))
})

test('two writes with one If-Match may succeed when the item had the same value again in between', () => {
  const ifMatch = tag({ n: 0 })
  fromZero.explained(
    ann.asks(put(1, { ifMatch })),
    cid.asks(put(0)),
    bob.asks(put(2, { ifMatch })),
    ann.gets(stored({ n: 1 })),
    bob.gets(stored({ n: 2 })),
    cid.gets(stored({ n: 0 })),
  )
})

test('a rejected If-Match that matched all along is detected', () => {
  fromZero.violated(ann.does(put(1, { ifMatch: tag({ n: 0 }) }), failed))
})

test('a read of a value that nobody wrote is detected', () => {
  fromZero.violated(ann.asks(put(1)), bob.does(get, found({ n: 7 })), ann.gets(stored({ n: 1 })))
})

test('a wrong ETag or body with the right status is detected', () => {
  fromZero.violated(ann.does(get, { ...found({ n: 0 }), tag: tag({ n: 1 }) }))
  fromZero.violated(ann.does(get, { ...found({ n: 0 }), text: textOf({ n: 1 }) }))
  fromZero.violated(ann.does(put(1), { status: 204, tag: tag({ n: 0 }) }))
  fromZero.violated(ann.does({ method: 'GET', ifNoneMatch: tag({ n: 1 }) }, { status: 304, tag: tag({ n: 1 }) }))
})

test('a deleted item that reappears is detected', () => {
  fromZero.violated(ann.does(remove, removed), bob.does(get, missing), cid.does(get, found({ n: 0 })))
  fromZero.violated(ann.does(remove, removed), bob.does(patch({ m: 1 }), stored({ n: 0, m: 1 })))
})

test('two successful deletes of one item are detected', () => {
  const both = [ann.asks(remove), bob.asks(remove)]
  fromZero.explained(...both, ann.gets(missing), bob.gets(removed))
  fromZero.violated(...both, ann.gets(removed), bob.gets(removed))
})

test('a duplicate create is detected', () => {
  const both = [ann.asks(post(1)), bob.asks(post(2))]
  fromNothing.explained(...both, ann.gets(exists), bob.gets(created({ n: 2 })))
  fromNothing.violated(...both, ann.gets(created({ n: 1 })), bob.gets(created({ n: 2 })))
  fromNothing.violated(ann.does(put(1, { ifNoneMatch: '*' }), created({ n: 1 })), bob.does(post(2), created({ n: 2 })))
})

test('an unanswered operation may never have happened, or much later', () => {
  const begun = [ann.asks(put(1)), bob.does(get, found({ n: 0 })), bob.does(put(2), stored({ n: 2 }))]
  fromZero.explained(...begun, cid.does(get, found({ n: 2 })))
  fromZero.explained(...begun, cid.does(get, found({ n: 2 })), cid.does(get, found({ n: 1 })))
  fromZero.explained(...begun, cid.does(get, found({ n: 1 })), bob.does(patch({ m: 3 }), stored({ n: 1, m: 3 })))
})

test('an unanswered operation happens at most once, and not before it was sent', () => {
  fromZero.violated(
    ann.asks(put(1)),
    bob.does(get, found({ n: 1 })),
    bob.does(put(2), stored({ n: 2 })),
    bob.does(get, found({ n: 1 })),
  )
  fromZero.violated(bob.does(get, found({ n: 1 })), ann.asks(put(1)))
})

test('an unanswered operation obeys its condition', () => {
  const ifMatch = tag({ n: 0 })
  fromZero.explained(ann.asks(put(1, { ifMatch })), cid.does(get, found({ n: 1 })))
  fromZero.violated(
    ann.asks(put(1, { ifMatch })),
    bob.does(put(2), stored({ n: 2 })),
    bob.does(get, found({ n: 2 })),
    cid.does(get, found({ n: 1 })),
  )
})

test('a write that was rejected for lack of space never happens', () => {
  fromZero.explained(ann.does(put(1), full), bob.does(get, found({ n: 0 })))
  fromZero.violated(ann.does(put(1), full), bob.does(get, found({ n: 1 })))
  fromZero.violated(ann.asks(remove), bob.does(remove, missing), ann.gets(full))
})

test('a lost acknowledged write is detected', () => {
  fromNothing.violated(
    ann.does(put(1), created({ n: 1 })),
    bob.does(get, found({ n: 1 })),
    ann.asks(put(2)),
    bob.does(get, missing),
  )
})

test('items are checked independently, and a violation names its item', () => {
  const other = client(4, 'y')
  const good = [ann.does(get, found({ n: 0 })), other.asks(put(1)), other.gets({ status: 201, tag: '"?"' })]
  const violation = violationIn(good, textOf({ n: 0 }))
  assert.equal(violation?.item, 'y')
  assert.match(describe(violation), /"y"/)
})

test('histories with many concurrent and unanswered operations are decided completely', () => {
  const clients = Array.from({ length: 6 }, (_, n) => client(10 + n))
  const lost = Array.from({ length: 6 }, (_, n) => client(30 + n).asks(put(100 + n)))
  const asked = clients.map((one, n) => one.asks(patch({ n })))
  const answered = clients.map((one, n) => one.gets(stored({ n })))
  const reads = clients.map((_, n) => bob.does(get, found({ n: clients.length - 1 - n })))
  fromZero.explained(...lost, ...asked, ...reads, ...answered)
  fromZero.violated(...lost, ...asked, ...reads, cid.does(get, found({ n: 5 })), ...answered)
})

/** A history in which one register answered every request at once, and the answers came back whenever they did. */
function delayed(random: Random, length: number, lie: boolean): History {
  const history = new History()
  const open: { readonly index: number; readonly answer: Answer }[] = []
  let state: State
  for (let n = 0; n < length; n++) {
    const ifMatch = random.chance(0.3) ? tag({ n: random.integer(n + 1) }) : undefined
    const request = random.pick([get, get, put(n, ifMatch ? { ifMatch } : {}), remove, patch({ n }), post(n)])
    const index = history.call(n, 'x', request)
    const { answer, state: next } = answerOf(request, 'x', state, tagOf)
    if (!lie || random.chance(0.4)) state = next
    if (random.chance(0.9)) open.push({ index, answer })
    while (open.length > random.integer(5)) {
      const [done] = open.splice(random.integer(open.length), 1)
      if (done) history.answer(done.index, done.answer)
    }
  }
  return history
}

test('a register with late and lost responses is always linearizable', () => {
  const random = new Random(SEED)
  for (let n = 0; n < 50; n++) {
    const violation = check(delayed(random, 60, false), () => undefined, tagOf)
    assert.equal(violation && describe(violation), undefined, `SEED=${SEED}`)
  }
})

/** Tries every order of every choice of the operations without an answer. */
function hasOrder(left: readonly Operation[], state: State): boolean {
  if (left.every(({ answer }) => !answer)) return true
  return left.some((operation) => {
    const { called, request, item, answer } = operation
    if (left.some(({ answered }) => answered < called)) return false
    const expected = answerOf(request, item, state, tagOf)
    if (answer && JSON.stringify(answer) !== JSON.stringify(expected.answer)) return false
    return hasOrder(
      left.filter((other) => other !== operation),
      expected.state,
    )
  })
}

test('small random histories are linearizable exactly when one of all their orders explains them', () => {
  const random = new Random(SEED)
  const counts = { explained: 0, violated: 0 }
  for (let n = 0; n < 2000; n++) {
    const history = delayed(random, 3 + random.integer(5), true)
    const violation = check(history, () => undefined, tagOf)
    assert.equal(!violation, hasOrder(history.operations, undefined), `SEED=${SEED}, history ${n}`)
    counts[violation ? 'violated' : 'explained']++
  }
  assert.ok(counts.explained > 100 && counts.violated > 100, JSON.stringify(counts))
})
