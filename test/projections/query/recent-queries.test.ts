import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pageLinks, parseParameters, parseQuery } from '../../../src/projections/query/query.ts'
import { type ParsedQuery, RecentQueries } from '../../../src/projections/query/recent-queries.ts'
import { Random, seedFor } from '../../support/random.ts'

function parse(search: string): ParsedQuery {
  const parameters = parseParameters(search, 100)
  return { parameters, query: parseQuery(parameters, { parameters: 100, pageSize: 1000 }) }
}

test('a query that was read before says the same of any page', () => {
  const seed = seedFor('recent queries')
  const random = new Random(seed)
  const recent = new RecentQueries()
  const parts = ['mac=a', 'n_gt=?', 'sort=-n', 'pageSize=7', 'page=x', 'q=page=3', 'fields=a', 'a%20page=2']
  let found = 0
  for (let round = 0; round < 5000; round++) {
    const start = `${random.pick(['page', 'skip', 'offset'])}=${random.pick(['0', '1', '2', '07', '1000', '9999999'])}`
    const search = [...parts, start].filter(() => random.chance(0.4)).join('&')
    let said: ParsedQuery | undefined
    try {
      said = parse(search)
    } catch {
      said = undefined
    }
    const known = recent.find(search)
    if (known) {
      found++
      assert.ok(said, `${search} is refused (RECENT_QUERIES_SEED=${seed})`)
      assert.deepEqual(known.query, { ...said.query, isShared: true }, search)
      assert.deepEqual(
        pageLinks(known.parameters, known.query.page, 100),
        pageLinks(said.parameters, said.query.page, 100),
      )
    } else if (said) assert.deepEqual(recent.keep(search, said).query.page, said.query.page)
  }
  assert.ok(found > 100, `${found} were known`)
})

test('pages of one query share what it says, and no more than a hundred queries are kept', () => {
  const recent = new RecentQueries()
  recent.keep('n=1&page=2', parse('n=1&page=2'))
  assert.equal(recent.find('n=1&page=3')?.query.filters, recent.find('n=1&page=4')?.query.filters)
  assert.deepEqual(recent.find('n=1&page=3')?.query.page.offset, 2 * 512)
  assert.equal(recent.find('n=1&page=0'), undefined)
  assert.equal(recent.find('n=2&page=2'), undefined)
  for (let n = 0; n < 200; n++) recent.keep(`n=${n}&page=1`, parse(`n=${n}&page=1`))
  const known = Array.from({ length: 200 }, (_, n) => recent.find(`n=${n}&page=1`)).filter(Boolean)
  assert.ok(known.length <= 100, `${known.length} are kept`)
})
