import assert from 'node:assert/strict'
import { test } from 'node:test'
import { applyJsonPatch, parsePatch } from '../../src/json/json-patch.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'

const LIMITS = { operations: 1000, resultBytes: 1024 * 1024, values: 20_000 }

function patched(target: JsonValue, patch: JsonValue, limits = LIMITS): JsonValue {
  return applyJsonPatch(JSON.stringify(target), parsePatch(patch), limits)
}

/** Refused with a code, and the target is as it was. */
function refused(code: RefusalCode, target: JsonValue, patch: JsonValue, limits = LIMITS): Refusal {
  const before = JSON.stringify(target)
  let refusal: unknown
  try {
    patched(target, patch, limits)
  } catch (error) {
    refusal = error
  }
  assert.ok(refusal instanceof Refusal, `${JSON.stringify(patch).slice(0, 200)} was refused, not ${String(refusal)}`)
  assert.equal(refusal.code, code, refusal.message)
  assert.equal(JSON.stringify(target), before)
  return refusal
}

interface Example {
  readonly name: string
  readonly target: JsonValue
  readonly patch: JsonValue
  readonly result: JsonValue | RefusalCode
}

const APPENDIX_A: readonly Example[] = [
  {
    name: 'A.1 adding an object member',
    target: { foo: 'bar' },
    patch: [{ op: 'add', path: '/baz', value: 'qux' }],
    result: { baz: 'qux', foo: 'bar' },
  },
  {
    name: 'A.2 adding an array element',
    target: { foo: ['bar', 'baz'] },
    patch: [{ op: 'add', path: '/foo/1', value: 'qux' }],
    result: { foo: ['bar', 'qux', 'baz'] },
  },
  {
    name: 'A.3 removing an object member',
    target: { baz: 'qux', foo: 'bar' },
    patch: [{ op: 'remove', path: '/baz' }],
    result: { foo: 'bar' },
  },
  {
    name: 'A.4 removing an array element',
    target: { foo: ['bar', 'qux', 'baz'] },
    patch: [{ op: 'remove', path: '/foo/1' }],
    result: { foo: ['bar', 'baz'] },
  },
  {
    name: 'A.5 replacing a value',
    target: { baz: 'qux', foo: 'bar' },
    patch: [{ op: 'replace', path: '/baz', value: 'boo' }],
    result: { baz: 'boo', foo: 'bar' },
  },
  {
    name: 'A.6 moving a value',
    target: { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
    patch: [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
    result: { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } },
  },
  {
    name: 'A.7 moving an array element',
    target: { foo: ['all', 'grass', 'cows', 'eat'] },
    patch: [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
    result: { foo: ['all', 'cows', 'eat', 'grass'] },
  },
  {
    name: 'A.8 testing a value: success',
    target: { baz: 'qux', foo: ['a', 2, 'c'] },
    patch: [
      { op: 'test', path: '/baz', value: 'qux' },
      { op: 'test', path: '/foo/1', value: 2 },
    ],
    result: { baz: 'qux', foo: ['a', 2, 'c'] },
  },
  {
    name: 'A.9 testing a value: error',
    target: { baz: 'qux' },
    patch: [{ op: 'test', path: '/baz', value: 'bar' }],
    result: 'Conflict',
  },
  {
    name: 'A.10 adding a nested member object',
    target: { foo: 'bar' },
    patch: [{ op: 'add', path: '/child', value: { grandchild: {} } }],
    result: { foo: 'bar', child: { grandchild: {} } },
  },
  {
    name: 'A.11 ignoring unrecognized elements',
    target: { foo: 'bar' },
    patch: [{ op: 'add', path: '/baz', value: 'qux', xyz: 123 }],
    result: { foo: 'bar', baz: 'qux' },
  },
  {
    name: 'A.12 adding to a nonexistent target',
    target: { foo: 'bar' },
    patch: [{ op: 'add', path: '/baz/bat', value: 'qux' }],
    result: 'Unprocessable',
  },
  {
    name: 'A.14 escape ordering',
    target: { '/': 9, '~1': 10 },
    patch: [{ op: 'test', path: '/~01', value: 10 }],
    result: { '/': 9, '~1': 10 },
  },
  {
    name: 'A.15 comparing strings and numbers',
    target: { '/': 9, '~1': 10 },
    patch: [{ op: 'test', path: '/~01', value: '10' }],
    result: 'Conflict',
  },
  {
    name: 'A.16 adding an array value',
    target: { foo: ['bar'] },
    patch: [{ op: 'add', path: '/foo/-', value: ['abc', 'def'] }],
    result: { foo: ['bar', ['abc', 'def']] },
  },
]

// A.13 has two members "op": JSON.parse keeps the last, "remove", as RFC 8259 §4 leaves open.
for (const { name, target, patch, result } of APPENDIX_A) {
  test(`RFC 6902 ${name}`, () => {
    const before = structuredClone(target)
    if (typeof result === 'string') refused(result as RefusalCode, target, patch)
    else assert.deepEqual(patched(target, patch), result)
    assert.deepEqual(target, before)
  })
}

test('a path may omit its leading slash', () => {
  assert.deepEqual(patched({ a: { b: 1 } }, [{ op: 'replace', path: 'a/b', value: 2 }]), { a: { b: 2 } })
  assert.deepEqual(patched({ a: 1 }, [{ op: 'move', from: 'a', path: 'b' }]), { b: 1 })
})

test('the empty path means the whole document', () => {
  assert.deepEqual(patched({ a: 1 }, [{ op: 'add', path: '', value: { b: 2 } }]), { b: 2 })
  assert.deepEqual(patched({ a: 1 }, [{ op: 'replace', path: '', value: [1] }]), [1])
  assert.deepEqual(patched({ a: { b: 1 } }, [{ op: 'copy', from: '/a', path: '' }]), { b: 1 })
  assert.deepEqual(patched({ a: { b: 1 } }, [{ op: 'move', from: '/a', path: '' }]), { b: 1 })
  assert.deepEqual(patched({ a: 1 }, [{ op: 'copy', from: '', path: '/b' }]), { a: 1, b: { a: 1 } })
  assert.deepEqual(patched({ a: 1 }, [{ op: 'test', path: '', value: { a: 1 } }]), { a: 1 })
  refused('Unprocessable', { a: 1 }, [{ op: 'remove', path: '' }])
  refused('Unprocessable', { a: 1 }, [{ op: 'move', from: '', path: '/a' }])
})

test('a member may have the empty name', () => {
  assert.deepEqual(patched({ '': 1 }, [{ op: 'replace', path: '/', value: 2 }]), { '': 2 })
})

test('null is a value: it can be tested, moved, copied and removed', () => {
  const target = { a: null }
  assert.deepEqual(patched(target, [{ op: 'test', path: '/a', value: null }]), target)
  assert.deepEqual(patched(target, [{ op: 'move', from: '/a', path: '/b' }]), { b: null })
  assert.deepEqual(patched(target, [{ op: 'copy', from: '/a', path: '/b' }]), { a: null, b: null })
  assert.deepEqual(patched(target, [{ op: 'remove', path: '/a' }]), {})
  assert.deepEqual(patched(target, [{ op: 'replace', path: '/a', value: 1 }]), { a: 1 })
  assert.deepEqual(patched({ a: 1 }, [{ op: 'replace', path: '/a', value: null }]), { a: null })
  assert.deepEqual(patched({ a: [] }, [{ op: 'add', path: '/a/-', value: null }]), { a: [null] })
})

test('a replaced member keeps its place', () => {
  const target = { a: 1, b: 2, c: 3 }
  assert.equal(JSON.stringify(patched(target, [{ op: 'replace', path: '/b', value: 4 }])), '{"a":1,"b":4,"c":3}')
  assert.equal(JSON.stringify(patched(target, [{ op: 'add', path: '/b', value: 4 }])), '{"a":1,"b":4,"c":3}')
  assert.deepEqual(patched({ l: [1, 2, 3] }, [{ op: 'replace', path: '/l/1', value: 4 }]), { l: [1, 4, 3] })
})

test('moving a value to its own place changes nothing', () => {
  const target = { a: 1, l: [1, 2] }
  assert.equal(JSON.stringify(patched(target, [{ op: 'move', from: '/a', path: '/a' }])), JSON.stringify(target))
  refused('Unprocessable', target, [{ op: 'move', from: '/b', path: '/b' }])
})

test('a move is a removal followed by an addition', () => {
  assert.deepEqual(patched({ l: [1, 2, 3] }, [{ op: 'move', from: '/l/0', path: '/l/2' }]), { l: [2, 3, 1] })
  assert.deepEqual(patched({ l: [1, 2, 3] }, [{ op: 'move', from: '/l/0', path: '/l/-' }]), { l: [2, 3, 1] })
  refused('Unprocessable', { l: [1, 2, 3] }, [{ op: 'move', from: '/l/0', path: '/l/3' }])
  refused('Unprocessable', { l: [1, {}] }, [{ op: 'move', from: '/l/0', path: '/l/1/a' }])
  assert.deepEqual(patched({ l: [1, {}, {}] }, [{ op: 'move', from: '/l/0', path: '/l/1/a' }]), { l: [{}, { a: 1 }] })
  refused('Unprocessable', { a: { b: {} } }, [{ op: 'move', from: '/a', path: '/a/b/c' }])
})

test('a copy is independent of its source', () => {
  const result = patched({ a: { n: 1 } }, [
    { op: 'copy', from: '/a', path: '/b' },
    { op: 'replace', path: '/b/n', value: 2 },
    { op: 'add', path: '/a/m', value: 3 },
  ])
  assert.deepEqual(result, { a: { n: 1, m: 3 }, b: { n: 2 } })
})

test('applying a patch does not modify the patch', () => {
  const operations = parsePatch([
    { op: 'add', path: '/a', value: { n: 1 } },
    { op: 'replace', path: '/a/n', value: 2 },
    { op: 'add', path: '/a/l', value: [] },
    { op: 'add', path: '/a/l/-', value: 1 },
  ])
  const first = applyJsonPatch('{}', operations, LIMITS)
  assert.deepEqual(first, { a: { n: 2, l: [1] } })
  assert.deepEqual(applyJsonPatch('{}', operations, LIMITS), first)
})

test('a malformed patch is rejected before any operation is applied', () => {
  const malformed: readonly JsonValue[] = [
    {},
    [],
    null,
    'add',
    [null],
    [[]],
    ['add'],
    [{}],
    [{ op: 'add', path: '/a' }],
    [{ op: 'replace', path: '/a' }],
    [{ op: 'test', path: '/a' }],
    [{ op: 'add', value: 1 }],
    [{ op: 'remove' }],
    [{ op: 'remove', path: null }],
    [{ op: 'remove', path: 1 }],
    [{ op: 'remove', path: ['a'] }],
    [{ op: 'move', path: '/a' }],
    [{ op: 'copy', path: '/a', from: 7 }],
    [{ op: 'spam', path: '/a', value: 1 }],
    [{ op: 'Add', path: '/a', value: 1 }],
    [{ op: 'toString', path: '/a' }],
    [{ op: 'remove', path: '/a~' }],
    [{ op: 'remove', path: '/a~2' }],
    [{ op: 'copy', path: '/b', from: '/~' }],
    [
      { op: 'add', path: '/b', value: 1 },
      { op: 'spam', path: '/a', value: 1 },
    ],
  ]
  for (const patch of malformed) refused('Invalid', { a: 1 }, patch)
})

test('a missing target rejects the whole patch', () => {
  const target = { a: 1, l: [1, 2], o: { n: null } }
  const impossible: readonly JsonObject[] = [
    { op: 'remove', path: '/b' },
    { op: 'replace', path: '/b', value: 1 },
    { op: 'move', from: '/b', path: '/c' },
    { op: 'copy', from: '/b', path: '/c' },
    { op: 'add', path: '/b/c', value: 1 },
    { op: 'add', path: '/a/b', value: 1 },
    { op: 'add', path: '/o/n/m', value: 1 },
    { op: 'add', path: '/l/3', value: 1 },
    { op: 'add', path: '/l/01', value: 1 },
    { op: 'add', path: '/l/1e0', value: 1 },
    { op: 'add', path: '/l/-1', value: 1 },
    { op: 'add', path: '/l/', value: 1 },
    { op: 'add', path: '/l/length', value: 0 },
    { op: 'add', path: '/l/push', value: 0 },
    { op: 'replace', path: '/l/2', value: 1 },
    { op: 'replace', path: '/l/-', value: 1 },
    { op: 'remove', path: '/l/-' },
    { op: 'remove', path: '/l/2' },
    { op: 'remove', path: '/l/length' },
    { op: 'copy', from: '/l/length', path: '/b' },
    { op: 'copy', from: '/a/length', path: '/b' },
  ]
  for (const operation of impossible) {
    const refusal = refused('Unprocessable', target, [{ op: 'add', path: '/first', value: 1 }, operation])
    assert.equal(refusal.faults[0]?.pointer, '/1')
  }
})

test('a failing test reverts all operations before it', () => {
  refused('Conflict', { a: 1 }, [
    { op: 'replace', path: '/a', value: 2 },
    { op: 'test', path: '/a', value: 1 },
  ])
})

const HOSTILE = [
  '/__proto__',
  '/__proto__/polluted',
  '/constructor/polluted',
  '/constructor/prototype/polluted',
  '/prototype/polluted',
  '/o/constructor/polluted',
  '/o/__proto__/polluted',
  '/l/__proto__/polluted',
  '/l/constructor/prototype/polluted',
  '/toString/call',
  '/hasOwnProperty/call',
  '/o/hasOwnProperty/call',
  '/l/push/call',
  '/l/map/polluted',
  '/valueOf/polluted',
  '/a/toString/polluted',
  '/o/__lookupGetter__/call',
  '__proto__/polluted',
  'constructor/prototype/polluted',
  'toString/call',
]

test('a pointer never reaches inherited members', () => {
  const natives = [Object.prototype, Function.prototype, Array.prototype, String.prototype, Object]
  const before = natives.map((native) => Object.getOwnPropertyNames(native).join())
  const calls = [Object.prototype.hasOwnProperty.call, Object.prototype.toString.call]
  const target = { a: 'text', l: [1], o: { n: 1 } }
  for (const path of HOSTILE) {
    for (const operation of [
      { op: 'add', path, value: 1 },
      { op: 'replace', path, value: 1 },
      { op: 'remove', path },
      { op: 'copy', from: '/o', path },
      { op: 'move', from: '/o/n', path },
      { op: 'copy', from: path, path: '/b' },
      { op: 'move', from: path, path: '/b' },
    ]) {
      refused('Unprocessable', target, [operation])
    }
  }
  assert.deepEqual(
    natives.map((native) => Object.getOwnPropertyNames(native).join()),
    before,
  )
  assert.deepEqual([Object.prototype.hasOwnProperty.call, Object.prototype.toString.call], calls)
})

test('an escaped pointer means an ordinary member, never a prototype', () => {
  refused('Unprocessable', { a: 1 }, [
    { op: 'add', path: '/~0proto', value: 1 },
    { op: 'add', path: '/__proto__', value: 1 },
  ])
  assert.deepEqual(patched({}, [{ op: 'add', path: '/__proto__~1polluted', value: 1 }]), { '__proto__/polluted': 1 })
  assert.deepEqual(patched({}, [{ op: 'add', path: '/~1~01', value: 1 }]), { '/~1': 1 })
})

test('an own member with the name of an inherited one is an ordinary member', () => {
  const target = { toString: { call: 1 }, hasOwnProperty: { call: 2 } }
  assert.deepEqual(patched(target, [{ op: 'replace', path: '/toString/call', value: 3 }]), {
    toString: { call: 3 },
    hasOwnProperty: { call: 2 },
  })
  const result = patched({}, [
    { op: 'add', path: '/hasOwnProperty', value: 1 },
    { op: 'add', path: '/valueOf', value: 2 },
    { op: 'copy', from: '/valueOf', path: '/x' },
  ])
  assert.equal(JSON.stringify(result), '{"hasOwnProperty":1,"valueOf":2,"x":2}')
})

test('a pointer passes through own members named constructor and prototype, as through any others', () => {
  const target = { o: { constructor: { prototype: { n: 1 } } }, l: [{ prototype: [1, 2] }] }
  const before = Object.getOwnPropertyNames(Object.prototype).join()
  const result = patched(target, [
    { op: 'test', path: '/o/constructor/prototype/n', value: 1 },
    { op: 'replace', path: '/o/constructor/prototype/n', value: 2 },
    { op: 'add', path: '/o/constructor/prototype/constructor', value: {} },
    { op: 'move', from: '/l/0/prototype/0', path: '/o/constructor/moved' },
    { op: 'copy', from: '/o/constructor/moved', path: '/constructor' },
    { op: 'add', path: '/prototype', value: { constructor: 3 } },
    { op: 'remove', path: '/prototype/constructor' },
  ])
  assert.equal(
    JSON.stringify(result),
    '{"o":{"constructor":{"prototype":{"n":2,"constructor":{}},"moved":1}},"l":[{"prototype":[2]}],"constructor":1,"prototype":{}}',
  )
  assert.equal(Object.getOwnPropertyNames(Object.prototype).join(), before)
  refused('Unprocessable', target, [
    { op: 'remove', path: '/o/constructor' },
    { op: 'add', path: '/o/constructor/prototype/polluted', value: 1 },
  ])
  refused('Unprocessable', target, [{ op: 'add', path: '/o/constructor/__proto__', value: 1 }])
})

test('removing a member does not reveal an inherited one', () => {
  const target = { o: { toString: { call: 1 } }, l: [{ hasOwnProperty: {} }, 1] }
  refused('Unprocessable', target, [
    { op: 'remove', path: '/o/toString' },
    { op: 'add', path: '/o/toString/call', value: 1 },
  ])
  refused('Unprocessable', target, [{ op: 'move', from: '/o/toString', path: '/o/toString/call' }])
  refused('Unprocessable', target, [{ op: 'move', from: '/o/toString/call', path: '/o/toString/call/x' }])
  refused('Unprocessable', target, [{ op: 'move', from: '/l/0', path: '/l/0/hasOwnProperty/call' }])
  assert.equal(Object.prototype.toString.call(1), '[object Number]')
})

test('a member named constructor is kept as it was sent', () => {
  for (const native of ['Array', 'Date', 'Object', 'RegExp']) {
    const value = {
      constructor: `function ${native}() { [native code] }`,
      length: 4_000_000_000,
      valueOf: 1,
      toString: {},
    }
    const add = patched({}, [{ op: 'add', path: '/a', value }])
    assert.equal(JSON.stringify(add), JSON.stringify({ a: value }))
    const replace = patched({ a: [1] }, [{ op: 'replace', path: '/a/0', value: [value] }])
    assert.equal(JSON.stringify(replace), JSON.stringify({ a: [[value]] }))
    const copy = patched({ a: value }, [{ op: 'copy', from: '/a', path: '/b' }])
    assert.equal(JSON.stringify(copy), JSON.stringify({ a: value, b: value }))
  }
})

test('copies that double the size stop at the limit of the result', () => {
  const doubling = Array.from({ length: 60 }, (_, index) => ({ op: 'copy', from: '', path: `/c${index}` }))
  refused('Unprocessable', { a: 'x'.repeat(100) }, doubling)
  const arrays = Array.from({ length: 60 }, () => ({ op: 'copy', from: '/l', path: '/l/-' }))
  refused('Unprocessable', { l: ['x'] }, arrays)
})

test('copies that double the nesting stop at the limit of depth', () => {
  const patch: JsonObject[] = []
  let depth = 1
  for (let round = 0; round < 15; round++) {
    patch.push({ op: 'copy', from: '/a', path: `${'/a'.repeat(depth)}/a` })
    depth *= 2
  }
  refused('Unprocessable', { a: {} }, patch)
})

test('a result may be nested a hundred deep, and no deeper', () => {
  const nested = (depth: number): JsonValue => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as JsonValue
  const target = { a: { b: {} } }
  assert.ok(patched(target, [{ op: 'add', path: '/a/b/c', value: nested(97) }]))
  refused('Unprocessable', target, [{ op: 'add', path: '/a/b/c', value: nested(98) }])
  refused('Unprocessable', { ...target, n: nested(98) }, [{ op: 'copy', from: '/n', path: '/a/b/c' }])
  assert.ok(patched(target, [{ op: 'add', path: '/a', value: '['.repeat(200) }]))
})

test('a path has at most a hundred segments', () => {
  const deep = JSON.parse(`${'{"a":'.repeat(99)}{}${'}'.repeat(99)}`) as JsonValue
  assert.ok(patched(deep, [{ op: 'add', path: '/a'.repeat(100), value: 1 }]))
  for (const segments of [101, 300_000]) {
    const path = '/a'.repeat(segments)
    refused('Unprocessable', deep, [{ op: 'add', path, value: 1 }])
    refused('Unprocessable', deep, [{ op: 'test', path, value: 1 }])
    refused('Unprocessable', deep, [{ op: 'copy', from: path, path: '/a' }])
  }
})

test('a path has at most 65,536 characters', () => {
  const name = 'a'.repeat(65_535)
  assert.ok(patched({}, [{ op: 'add', path: `/${name}`, value: 1 }]))
  const error = refused('Unprocessable', {}, [{ op: 'add', path: `/${name}a`, value: 1 }])
  assert.match(error.message, /"path" has more than 65536 characters/)
})

test('a patch with too many operations is rejected', () => {
  const tests = (count: number): JsonValue =>
    Array.from({ length: count }, () => ({ op: 'test', path: '/a', value: 1 }))
  assert.deepEqual(patched({ a: 1 }, tests(1000)), { a: 1 })
  refused('Unprocessable', { a: 1 }, tests(1001))
})

test('a patch that copies until its values are too many is rejected', () => {
  const doubling = Array.from({ length: 12 }, () => ({ op: 'copy', from: '', path: '/-' }))
  const error = refused('Unprocessable', [[0, 0]], doubling, { ...LIMITS, values: 1000 })
  assert.match(error.message, /Operation \d+ of the JSON Patch cannot be applied: it exceeds 1000 values/)
  assert.equal(JSON.stringify(patched([[0, 0]], doubling.slice(0, 2))), '[[0,0],[[0,0]],[[0,0],[[0,0]]]]')
})

test('the escapes of a pointer are decoded in the order of RFC 6901', () => {
  const operations = parsePatch([{ op: 'remove', path: '/a~01/b~1~0c/~00~10' }])
  assert.deepEqual(operations, [{ op: 'remove', path: ['a~1', 'b/~c', '~0/0'] }])
})
