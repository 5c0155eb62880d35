import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const MOST_WORDS = 40

/** Terms with a standard name, which is given beside each. */
const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/collections? of garbage|collecting garbage/i, 'garbage collection'],
  [/\bnodes? that decides?\b/i, 'leader'],
  [/holds everybody|nobody is held|holds nobody|holds up everybody/i, 'blocks the event loop'],
  [/\b(?:gone|going|goes|go) on with\b/i, 'continues'],
  [/\blet(?:s|ting)? go of\b/i, 'releases'],
  [/\bwhoever (?:asks|wants|waits|reads|comes)\b/i, 'the client'],
  [/\bhand edits?\b|\bedited by hand\b/i, 'edit of the data file'],
]

interface Text {
  readonly file: string
  readonly text: string
}

/** Doc and line comments, each as one line. */
const comments = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /(?<!\.d)\.ts$/.test(name))
  .flatMap((file): Text[] => {
    const source = readFileSync(join(root, 'src', file), 'utf8')
    return [...source.matchAll(/\/\*\*([\s\S]*?)\*\/|^[ \t]*\/\/ (.*)$/gm)].map(([, doc, line = '']) => ({
      file,
      text: (doc ?? line).replace(/\s*\n\s*\* ?/g, ' ').trim(),
    }))
  })

const documents: readonly Text[] = readdirSync(join(root, 'docs'))
  .filter((name) => name.endsWith('.md'))
  .map((name) => join('docs', name))
  .concat('README.md')
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8').replace(/```[\s\S]*?```/g, '\n\n') }))

test('comments begin with their subject, and not with Of, What or So', () => {
  assert.ok(comments.length > 1000, 'the comments were found')
  const wrong = comments.filter(({ text }) => /^(?:Of|What|So) /.test(text))
  assert.deepEqual(wrong, [])
})

test('comments and documents use standard terms', () => {
  const wrong = [...comments, ...documents].flatMap(({ file, text }) =>
    FORBIDDEN.filter(([term]) => term.test(text)).map(([term, name]) => `${file}: ${term.exec(text)?.[0]}: ${name}`),
  )
  assert.deepEqual(wrong, [])
})

test('sentences of the documents, or their parts between colons and semicolons, have at most 40 words', () => {
  const long = documents.flatMap(({ file, text }) =>
    text
      .split(/\n\s*\n|\n(?=\s*(?:- |\d+\. |#|\|))|(?<!\\)\|/)
      .flatMap((part) => part.replace(/\s+/g, ' ').split(/(?<=[.!?:;]["')*]*) /))
      .filter((part) => part.split(' ').filter((word) => /\w/.test(word)).length > MOST_WORDS)
      .map((part) => `${file}: ${part.slice(0, 80)}`),
  )
  assert.deepEqual(long, [])
})
