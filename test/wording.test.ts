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

/** Phrases that names of tests do without, besides `FORBIDDEN`. */
const FORBIDDEN_IN_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^(?:of|what|who|whoever|whatever|so)\b/i, 'the subject comes first'],
  [/\b(?:take[sn]?|taking|took) in\b/i, 'import, merge'],
  [/\blet go\b/i, 'release, disconnect'],
  [/\bgo(?:es|ing|ne)? on\b/i, 'continue'],
  [/\b(?:is|are) none\b/i, 'is missing, is invalid'],
  [/\bone's\b|\bwho(?:ever)? (?:asks|reads|writes|has)\b|\bthose who\b/i, 'the client'],
  [/\bby hand\b|\bhand edits?\b/i, 'edit of the data file'],
]

interface Text {
  readonly file: string
  readonly text: string
}

/** Doc and line comments, each as one line. */
function commentsOf(folder: string): readonly Text[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?<!\.d)\.ts$/.test(name) && !name.includes('node_modules'))
    .flatMap((name): Text[] => {
      const file = join(folder, name)
      const source = readFileSync(join(root, file), 'utf8')
      return [...source.matchAll(/\/\*\*([\s\S]*?)\*\/|^[ \t]*\/\/ (.*)$/gm)].map(([, doc, line = '']) => ({
        file,
        text: (doc ?? line).replace(/\s*\n\s*\* ?/g, ' ').trim(),
      }))
    })
}

const comments = ['src', 'test', 'bench'].flatMap(commentsOf)

const documents: readonly Text[] = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => join('docs', name))
  .concat('README.md')
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8').replace(/```[\s\S]*?```/g, '\n\n') }))

/** The names of tests outside of groups; within a group a name continues that of the group. */
const testNames: readonly Text[] = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
  .flatMap((file) => {
    const names = readFileSync(join(root, 'test', file), 'utf8').matchAll(/^test\(\s*(['"`])(.*?)\1,/gm)
    return Array.from(names, ([, , text = '']) => ({ file, text }))
  })

test('names of tests begin with their subject and use standard terms', () => {
  assert.ok(testNames.length > 800, `${testNames.length} names were found`)
  assert.deepEqual(found(testNames, [...FORBIDDEN, ...FORBIDDEN_IN_NAMES]), [])
})

test('comments begin with their subject, and not with Of, What or So', () => {
  assert.ok(comments.length > 1000, 'the comments were found')
  const wrong = comments.filter(({ text }) => /^(?:Of|What|So) /.test(text))
  assert.deepEqual(wrong, [])
})

test('comments and documents use standard terms', () => {
  assert.deepEqual(found([...comments, ...documents], FORBIDDEN), [])
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

function found(texts: readonly Text[], terms: readonly (readonly [RegExp, string])[]): string[] {
  return texts.flatMap(({ file, text }) =>
    terms.filter(([term]) => term.test(text)).map(([, name]) => `${file}: "${text.slice(0, 80)}": ${name}`),
  )
}
