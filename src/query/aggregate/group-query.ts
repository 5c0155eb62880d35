import { mergeSort } from '../../json/merge-sort.ts'
import { type Sort, sortKeys } from '../../json/order.ts'
import { formatPath } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import { CHARACTERS_AT_ONCE, type Turn } from '../../runtime/turns.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import { visitMatches } from '../index/finder.ts'
import type { IndexPlan } from '../index/plan.ts'
import { comparingEntries, type SortEntry } from '../index/sort-keys.ts'
import { type ItemText, type Page, pageOfItems, pageOfTexts } from '../page.ts'
import type { Query } from '../query.ts'
import { MOST_COMPARED } from './accumulator.ts'
import { type Aggregation, type Grouping, timeColumns } from './aggregation.ts'
import { IndexOnlyScan } from './index-only-scan.ts'
import { NewestItems, Rows, timeBounds } from './rows.ts'

/** Answers a query for groups, which must have at most as many rows in total as a page may have. */
export async function groupPage(
  snapshot: CollectionSnapshot,
  query: Query,
  grouping: Grouping,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Page> {
  const most = query.page.largest
  if (grouping.kind === 'newest') {
    const newest = new NewestItems(grouping.path, grouping.time, most, turn)
    if (plan?.access.covered) await new IndexOnlyScan(snapshot, query, plan, grouping).addNewestTo(newest, turn)
    else await visitMatches(snapshot, query, plan, (item, place) => newest.add(item, place), turn)
    return newestPage(snapshot, query, await newest.places(turn))
  }
  const rows = new Rows({
    aggregation: grouping,
    bounds: timeBounds(query.filters, grouping.time),
    mostRows: most,
    itemAt: (place) => snapshot.items.itemAt(place),
    turn,
  })
  if (plan?.access.covered) await new IndexOnlyScan(snapshot, query, plan, grouping).addTo(rows, grouping, turn)
  else await visitMatches(snapshot, query, plan, (item, place) => rows.add(item, place), turn)
  const found = await sortedRows(await rows.rows(turn), query.sort, grouping, turn)
  const page = found.slice(query.page.offset, query.page.offset + query.page.size)
  const texts = await rowTexts(page, grouping.kind === 'distinct', turn)
  return pageOfTexts(texts, found.length)
}

/** The texts of rows, or of the values of their only column. */
async function rowTexts(rows: readonly JsonObject[], areValues: boolean, turn: Turn): Promise<readonly ItemText[]> {
  const columns = Object.keys(rows[0] ?? {}).map((name) => ({ name, before: `${JSON.stringify(name)}:` }))
  const texts: ItemText[] = []
  for (const row of rows) {
    let text = ''
    for (const { name, before } of columns) {
      // A row may have a text of a megabyte in each column.
      if (turn.isOver) await turn.next()
      const value = JSON.stringify(row[name])
      if (text.length + value.length > CHARACTERS_AT_ONCE) {
        throw new Refusal(
          'Invalid',
          `A row would be longer than ${CHARACTERS_AT_ONCE} characters; ask for fewer columns.`,
        )
      }
      text += areValues ? value : `${text === '' ? '{' : ','}${before}${value}`
    }
    turn.hold(2 * text.length)
    texts.push({ text: areValues ? text : `${text}}` })
  }
  return texts
}

function newestPage({ items }: CollectionSnapshot, { page, fields, sort }: Query, places: readonly number[]): Page {
  if (sort.length > 0)
    throw new Refusal('Invalid', 'The parameter newestBy sorts by its groups, and cannot be combined with sort.')
  return pageOfItems(items, places.slice(page.offset, page.offset + page.size), places.length, fields)
}

/** Sorts by columns, which the paths of the sorts name. */
async function sortedRows(
  rows: JsonObject[],
  sorts: readonly Sort[],
  aggregation: Aggregation,
  turn: Turn,
): Promise<readonly JsonObject[]> {
  const [first] = rows
  if (sorts.length === 0 || !first) return rows
  const columns = sorts.map(({ path }) => formatPath(path))
  const times = timeColumns(aggregation)
  const sort = sorts.map((one, index) => {
    const column = columns[index] as string
    return { ...one, path: [column], isTime: times.has(column) }
  })
  const unknown = columns.find((column) => !Object.hasOwn(first, column))
  if (unknown !== undefined) {
    throw new Refusal(
      'Invalid',
      `The rows have no column ${JSON.stringify(unknown)}; they have ${Object.keys(first).join(', ')}.`,
    )
  }
  const entries: SortEntry[] = []
  for (const [place, row] of rows.entries()) {
    if (turn.isOver) await turn.next()
    entries.push({ place, keys: sortKeys(row, sort, MOST_COMPARED) })
  }
  const sorted = await mergeSort(entries, turn, comparingEntries(sort))
  return sorted.map(({ place }) => rows[place] as JsonObject)
}
