// Stands in the HTML itself: asks for the first data of a page while its script is still on the way.
import { base, kept } from './base.ts'

declare global {
  /**
   * Answers that were asked for before there was a client, by their URLs; undefined: to be asked for again. There is
   * none where a content security policy does not allow this script.
   */
  var early: Map<string, Promise<Response | undefined>> | undefined
}

const { first = '' } = document.currentScript?.dataset ?? {}
const get = (path: string): Promise<Response> => fetch(`${base}/${path}`, { cache: 'no-cache', credentials: 'omit' })

// Whoever is signed in needs the client, which knows how credentials are sent.
if (sessionStorage.getItem(kept('session')) === null) {
  const health = get('health')
  globalThis.early = new Map([[`${base}/health`, health.catch(noAnswer)]])
  // The address may ask for something else.
  if (location.search === '') globalThis.early.set(`${base}/${first}`, health.then(firstData).catch(noAnswer))
}

async function firstData(health: Response): Promise<Response | undefined> {
  const { access } = await health.clone().json()
  return access.role === null ? undefined : get(first)
}

function noAnswer(): undefined {}
