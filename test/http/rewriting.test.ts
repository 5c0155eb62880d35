import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { type AddressRules, mistakesOfRule, Rewriting } from '../../src/http/rewriting.ts'

/** The longest request line that Limits.HeaderBytes accepts by default. */
const LONGEST = 32 * 1024

function rewritten(rules: AddressRules, url: string): string {
  const request = { url }
  new Rewriting(rules).apply(request as IncomingMessage)
  return request.url
}

test('a pattern of json-server leads to the address with its parts, also with a query', () => {
  for (const [from, to, sent, expected] of [
    ['/blog/*', '/$1', '/blog/posts/1?_embed=comments', '/posts/1?_embed=comments'],
    ['/blog/*', '/$1', '/blog/', '/'],
    ['/blog/*', '/$1', '/blog', '/blog'],
    ['/BLOG/*', '/$1', '/blog/a', '/a'],
    ['/*/show', '/$1', '/posts/1/show/', '/posts/1'],
    ['/:resource/:id/show', '/:resource/:id', '/posts/1/show', '/posts/1'],
    ['/:resource/:id/show', '/$2/$1', '/posts/1/show', '/1/posts'],
    ['/first/:id', '/posts/:id', '/first/1?_embed=comments', '/posts/1?_embed=comments'],
    ['/first/:id', '/posts/:id', '/first/1/more', '/first/1/more'],
    ['/articles?id=:id&by=:by', '/posts/:id?by=:by', '/articles?id=2&by=ada', '/posts/2?by=ada'],
    ['/:name-show', '/:name', '/a-b-show', '/a-b'],
    ['/a.b', '/c', '/a.b/', '/c'],
    ['/a.b', '/c', '/axb', '/axb'],
    ['/', '/posts', '/', '/posts'],
  ] as const) {
    assert.deepEqual(mistakesOfRule(from, to), [], from)
    assert.equal(rewritten({ [from]: to }, sent), expected, `${from} for ${sent}`)
  }
})

test('a rule that names a part which the pattern does not have is refused', () => {
  for (const [from, to] of [
    ['/go/*', '/$2'],
    ['/go/*', '/$0'],
    ['/go/*', '/:go'],
    ['/d/:e', '/:f'],
    ['/d', '/$1'],
  ] as const) {
    assert.match(mistakesOfRule(from, to).join(), /names (\$\d|:\w), which .* does not|names :go/, `${from} ${to}`)
  }
})

test('a pattern is refused if it has other syntax than names and one * at the end', () => {
  for (const from of [
    '/*/x/*/y/*/z/*',
    '/*/x/*',
    '/*/:id',
    '/:a:b',
    '/:a*',
    '/a\\:foo',
    '/opt/:x?',
    '/many/:x+',
    '/many/:x(\\d+)',
    '/(.*)',
    '/(a+)+',
  ]) {
    assert.match(mistakesOfRule(from, '/posts').join(), /is no pattern/, from)
  }
})

test('the longest address that nearly matches is compared with each pattern', () => {
  for (const [from, text] of [
    ['/*/x', '/'],
    ['/*/x/y', '/x/'],
    ['/:a/:b/:c/:d/x', '/a'],
    ['/:a-:b-:c-:d-x', '-'],
    ['/:a-:b-:c-:d-x', 'a-'],
    ['/:a--:b--*y', '-'],
    ['/:a/*/x', '/x'],
  ] as const) {
    const url = `/${text.repeat(LONGEST / text.length)}`
    assert.deepEqual(mistakesOfRule(from, '/posts'), [], from)
    assert.equal(rewritten(Object.fromEntries([[from, '/posts']]), url), url, from)
  }
})
