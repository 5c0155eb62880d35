import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../support/directory.ts'
import { runToEnd, startServer } from '../support/server.ts'

const bad: [string, string | Buffer, RegExp][] = [
  ['text that is no JSON', '{"a": [{"id": 1},\n  {"id": 2} {"id": 3}]}', /line 2, column 13/],
  ['an empty file', '', /data file/i],
  ['a trailing comma', '{"a": [],}', /line 1, column 10/],
  ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /UTF-8/],
  ['a root that is an array', '[]', /root/],
  ['a root that is null', 'null', /root/],
  ['a collection that is text', '{"a": "x"}', /\/a\b/],
  ['an item that is a number', '{"a": [{}, 1]}', /\/a\/1\b/],
  ['an item that is null', '{"a": [null]}', /\/a\/0\b/],
  ['two items of one id', '{"a": [{"id": 1}, {"id": 2}, {"id": 1}]}', /\/a\/2\/id.*"1"/],
  ['ids that are one key', '{"a": [{"id": 1}, {"id": "1"}]}', /\/a\/1\/id.*"1"/],
  ['an id that is null', '{"a": [{"id": null}]}', /\/a\/0\/id/],
  ['an id that is empty', '{"a": [{"id": ""}]}', /\/a\/0\/id/],
  ['an id with a lone surrogate', '{"a": [{"id": "\\ud800"}]}', /\/a\/0\/id/],
  ['a collection without a name', '{"": []}', /name/],
  ['a name with a lone surrogate', '{"\\udc00": []}', /name/],
  ['a __proto__ member', '{"a": [{"b": {"__proto__": 1}}]}', /\/a\/0\/b\/__proto__/],
  ['a number without end', '{"a": [{"b": [1e999]}]}', /\/a\/0\/b\/0/],
  ['an integer that would be rounded', '{"a": [{"b": 9007199254740993}]}', /\/a\/0\/b/],
  ['a number that becomes 0', '{"a": [{"b": [0, 1e-400]}]}', /\/a\/0\/b\/1/],
  ['nesting without end', `{"a": [{"b": ${'['.repeat(101)}${']'.repeat(101)}}]}`, /\/a\/0\/b/],
]

test('an invalid data file is rejected with the place and exit code 2, and nothing is created', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const [what, text, place] of bad) {
    await writeFile(join(directory, 'db.json'), text)
    const { code, stdout, stderr } = await runToEnd(t, directory, ['--file', 'db.json', '--urls', 'http://127.0.0.1:0'])
    assert.equal(code, 2, `${what}: ${stderr}`)
    assert.match(stderr, place, what)
    assert.equal(stdout, '', what)
    assert.doesNotMatch(stderr, /\n\s+at /, `${what}: no stack`)
    assert.deepEqual(await readdir(directory), ['db.json'], what)
  }
})

test('large first items without ids are rejected beside the highest integer id, as a text may spell the next one', async (t) => {
  const directory = await temporaryDirectory(t)
  const items = [{ id: 2 ** 52 }, { id: String(2 ** 52 + 1), name: 'text' }, { name: 'no id yet' }]
  await writeFile(join(directory, 'db.json'), JSON.stringify({ a: items }))
  const flags = ['--file', 'db.json', '--urls', 'http://127.0.0.1:0', '--DataFile.EditBytes']
  const large = await runToEnd(t, directory, [...flags, '10'])
  assert.notEqual(large.code, 0)
  assert.match(large.stderr, /At \/a: write an "id" in each item/)
  const server = await startServer(t, { directory })
  const response = await server.fetch('/api/a')
  assert.deepEqual(await response.json(), [...items.slice(0, 2), { id: 2 ** 52 + 2, name: 'no id yet' }])
})
