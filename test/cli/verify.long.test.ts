import assert from 'node:assert/strict'
import { cp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { stateOf, temporaryDirectory } from '../support/directory.ts'
import { json, startProgram } from '../support/server.ts'
import { edit, recollect, segmentOf, startWritten } from './recollect.ts'

interface Verified {
  readonly ok: boolean
  readonly id?: string
  readonly head?: number
  readonly segments?: number
  readonly unfinishedBytes?: number
  readonly dataFile?: string
  readonly problems: readonly string[]
  readonly advice?: string
}

/** Copies of one stopped server's directory, each to be damaged in its own way. */
async function stopped(t: TestContext): Promise<() => Promise<string>> {
  const server = await startWritten(t, 20)
  assert.equal(await server.stop(), 0)
  return async () => {
    const copy = await temporaryDirectory(t)
    await cp(server.directory, copy, { recursive: true })
    return copy
  }
}

/** Verifies, and holds it to changing nothing. */
async function verify(t: TestContext, directory: string): Promise<Verified & { readonly code: number | null }> {
  const before = await stateOf(directory)
  const { code, stdout, stderr } = await recollect(t, directory, 'verify', '--json')
  assert.equal(stderr, '')
  assert.deepEqual(await stateOf(directory), before)
  return { ...(JSON.parse(stdout) as Verified), code }
}

test('verify finds damage of a journal or its data file, and changes nothing', async (t) => {
  const copy = await stopped(t)
  const whole = await copy()
  const { head = 0, segments = 0, id } = await verify(t, whole)
  assert.ok(head > 40 && segments > 3)
  const names = (await readdir(join(whole, 'db.journal'))).filter((name) => name.endsWith('.ndjson')).sort()
  const last = Number((names.at(-1) as string).slice(0, 20))

  await t.test('an intact journal exits with 0, in words and as JSON', async (inner) => {
    const found = await verify(inner, whole)
    assert.deepEqual(
      { ...found, id: typeof found.id, journal: '' },
      {
        ok: true,
        code: 0,
        journal: '',
        id: 'string',
        head,
        segments,
        unfinishedBytes: 0,
        dataFile: 'current',
        problems: [],
      },
    )
    const { code, stdout } = await recollect(inner, whole, 'verify')
    assert.equal(code, 0)
    assert.equal(
      stdout,
      `The journal ${id} is intact: ${head} events in ${segments} segment${segments === 1 ? '' : 's'}; the data file is current.\n`,
    )
  })

  await t.test('a torn tail is reported with its bytes and exits with 0', async (inner) => {
    const directory = await copy()
    await edit(segmentOf(directory, last), (bytes) => Buffer.concat([bytes, Buffer.from('{"frame":"0123')]))
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.ok, found.unfinishedBytes, found.head], [0, true, 14, head])
    const { code, stdout } = await recollect(inner, directory, 'verify')
    assert.equal(code, 0)
    assert.match(stdout, /Its last 14 bytes are not a complete write, or not yet\./)
  })

  await t.test('a flipped bit exits with 1, with segment, offset and position', async (inner) => {
    const directory = await copy()
    await edit(segmentOf(directory, last), (bytes) => {
      bytes[200] = (bytes[200] as number) ^ 1
      return bytes
    })
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.ok, found.problems.length], [1, false, 1])
    assert.match(
      found.problems[0] as string,
      new RegExp(`^${segmentOf(directory, last)}, offset \\d+, position ${last}: `),
    )
    const { code, stdout } = await recollect(inner, directory, 'verify')
    assert.deepEqual([code, stdout], [1, `${found.problems[0]}\n${found.advice}\n`])
    assert.match(found.advice ?? '', /recollect repair --from/)
  })

  await t.test('a missing record or segment exits with 1', async (inner) => {
    const directory = await copy()
    await edit(segmentOf(directory, last), (bytes) => {
      const lines = bytes.toString().split('\n')
      lines.splice(1, 1)
      return lines.join('\n')
    })
    assert.equal((await verify(inner, directory)).code, 1)
    const another = await copy()
    await rm(join(another, 'db.journal', names[1] as string))
    const found = await verify(inner, another)
    assert.equal(found.code, 1)
    assert.match(found.problems.join(), /is missing/)
  })

  await t.test('a journal that lost its end is detected by the data file and exits with 1', async (inner) => {
    const directory = await copy()
    await rm(join(directory, 'db.journal', names.at(-1) as string))
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile, found.head], [1, 'ahead', last - 1])
    assert.match(found.problems.join(), new RegExp(`shows position ${head}, and the journal ends at ${last - 1}`))
  })

  await t.test('the journal of another data file exits with 1', async (inner) => {
    const other = await startWritten(inner, 3)
    await other.stop()
    const directory = await copy()
    await rm(join(directory, 'db.journal'), { recursive: true })
    await cp(join(other.directory, 'db.journal'), join(directory, 'db.journal'), { recursive: true })
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [1, 'different'])
    assert.match(found.problems.join(), new RegExp(`was written from the journal ${id}`))
  })

  await t.test('an edit of the data file that was not merged yet is no damage and exits with 0', async (inner) => {
    const directory = await copy()
    await writeFile(join(directory, 'db.json'), '{"a": []}')
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [0, 'edited'])
  })

  await t.test('an invalid data file exits with 1, with the place', async (inner) => {
    const directory = await copy()
    await writeFile(join(directory, 'db.json'), '{"a": [,]}')
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [1, 'invalid'])
    assert.match(found.problems.join(), /line 1, column/)
  })

  await t.test('a missing data file can be rewritten and exits with 0', async (inner) => {
    const directory = await copy()
    await rm(join(directory, 'db.json'))
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [0, 'missing'])
  })

  await t.test('a data file that differs from its mark exits with 1', async (inner) => {
    const directory = await copy()
    const state = join(directory, '.recollect', 'db.json.state')
    await edit(state, (bytes) => bytes.toString().replace(/"position":\d+/, '"position":5'))
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [1, 'different'])
    assert.match(found.problems.join(), /up to position 5/)
  })

  await t.test('a damaged mark of the data file exits with 1', async (inner) => {
    const directory = await copy()
    await writeFile(join(directory, '.recollect', 'db.json.state'), '{"journal')
    const found = await verify(inner, directory)
    assert.equal(found.code, 1)
    assert.match(found.problems.join(), /db\.json\.state is damaged/)
  })

  await t.test(
    'a data file without its mark exits with 0 if it shows the end of the journal, otherwise with 1',
    async (inner) => {
      const directory = await copy()
      await rm(join(directory, '.recollect'), { recursive: true })
      const same = await verify(inner, directory)
      assert.deepEqual([same.code, same.dataFile], [0, 'current'])
      await writeFile(join(directory, 'db.json'), '{}')
      const other = await verify(inner, directory)
      assert.deepEqual([other.code, other.dataFile], [1, 'different'])
      assert.match(other.problems.join(), /its state file is missing/)
    },
  )

  await t.test('the data file may be named by a symbolic link', async (inner) => {
    const directory = await copy()
    await rename(join(directory, 'db.json'), join(directory, 'real.json'))
    await rename(join(directory, '.recollect', 'db.json.state'), join(directory, '.recollect', 'real.json.state'))
    await symlink('real.json', join(directory, 'db.json'))
    const found = await verify(inner, directory)
    assert.deepEqual([found.code, found.dataFile], [0, 'current'])
  })

  await t.test('a missing journal exits with 1 and is not created', async (inner) => {
    const directory = await temporaryDirectory(inner)
    const found = await verify(inner, directory)
    assert.equal(found.code, 1)
    assert.deepEqual(found.problems, [`There is no journal in ${join(directory, 'db.journal')}.`])
  })

  await t.test('invalid flags exit with 2, and each one is named', async (inner) => {
    const { code, stdout, stderr } = await recollect(
      inner,
      whole,
      'verify',
      '--jsno',
      '--journal',
      '',
      'more',
      '--',
      'x',
    )
    assert.equal(code, 2)
    assert.equal(stdout, '')
    for (const mistake of ['--jsno', '--journal needs a value', 'more', '"x"'])
      assert.ok(stderr.includes(mistake), stderr)
  })
})

test('verify checks the journal of a running server during writes', async (t) => {
  const server = await startProgram(t, {
    data: { a: [] },
    flags: ['--Journal.SegmentBytes', '4000', '--Journal.Compress', '0'],
  })
  let isEnding = false
  let written = 0
  const writing = Array.from({ length: 4 }, async () => {
    while (!isEnding) {
      assert.equal((await server.fetch('/api/a', json('POST', { text: 'x'.repeat(200) }))).status, 201)
      written++
    }
  })
  let before = 0
  for (let look = 0; look < 5; look++) {
    const least = written
    const { code, stdout, stderr } = await recollect(t, server.directory, 'verify', '--json')
    assert.equal(code, 0, stdout + stderr)
    const { head = 0 } = JSON.parse(stdout) as Verified
    assert.ok(head >= before && head > least, `${head} events, ${least} were acknowledged before`)
    before = head
  }
  isEnding = true
  await Promise.all(writing)
  assert.equal(await server.stop(), 0)
  assert.equal((await readFile(server.file, 'utf8')).match(/"id"/g)?.length, written)
})
