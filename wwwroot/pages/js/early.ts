// Stands in the HTML itself: asks for the first data of a page while its script is still on the way. The addresses are
// those that the page asks for; it takes an answer that is there, and would otherwise ask again.
import { base, kept } from './base.ts'

type Counts = Readonly<Record<string, number | null>>
type Answer = Promise<Response | undefined>

declare global {
  /**
   * Answers that were asked for before there was a client, by their URLs; undefined: to be asked for again. There is
   * none where a content security policy does not allow this script.
   */
  var early: Map<string, Answer> | undefined
}

const COUNTS = 'api?count=true'
/** The path of the events that a page shows first. */
const EVENTS: Readonly<Record<string, string>> = {
  home: 'events?order=desc&changes=true&limit=40',
  journal: 'events?limit=40&changes=true&order=desc',
}
/** The path of the items that a page shows first, by the numbers of items in the collections; undefined: none. */
const ITEMS: Readonly<Record<string, (counts: Counts) => string | undefined>> = {
  collections: (counts) => {
    const [first] = Object.entries(counts)
    return first && first[1] !== null ? `api/${encodeURIComponent(first[0])}?pageSize=50` : undefined
  },
  sensors: ({ sensors }) => (typeof sensors === 'number' ? 'api/sensors?page=1&pageSize=60' : undefined),
}

const answers = new Map<string, Answer>()
const page = document.currentScript?.dataset.page ?? ''

// After a sign-in only the client knows how to send the credentials, so nothing is asked for here.
if (sessionStorage.getItem(kept('session')) === null) {
  globalThis.early = answers
  const health = get('health')
  const mayRead = health.then(async (response) => (await response.clone().json()).access.role !== null)
  const getAllowed = async (path: string): Answer => ((await mayRead) ? get(path) : undefined)
  keep('health', health)
  keep(COUNTS, getAllowed(COUNTS).then(askForItems))
  const events = EVENTS[page]
  if (events !== undefined && isPlain()) keep(events, getAllowed(events))
}

/** Asks before the page has the counts, so that it finds this answer. */
async function askForItems(counts: Response | undefined): Answer {
  const items = counts && isPlain() ? ITEMS[page]?.(await counts.clone().json()) : undefined
  if (items !== undefined) keep(items, get(items))
  return counts
}

/** The address may ask for something else. */
function isPlain(): boolean {
  return location.search === ''
}

function get(path: string): Promise<Response> {
  return fetch(`${base}/${path}`, { cache: 'no-cache', credentials: 'omit' })
}

/** After a failure the page asks itself. */
function keep(path: string, answer: Answer): void {
  answers.set(
    `${base}/${path}`,
    answer.catch(() => undefined),
  )
}
