// How the journal is: where it stands, how far others are behind it, its files, and whether all of it is whole.
import { calmly, el, fill, setText } from './dom.js'
import { bytes, count, counted, visible } from './format.js'
import { base, server } from './server.js'
import { headersOf, session } from './session.js'

const REFRESH_MS = 2000
const SHOWN_SEGMENTS = 200

/** @param {HTMLElement} place */
export function healthCard(place) {
  const facts = el('dl.facts')
  const segments = el('div.segments')
  const result = el('p', { role: 'status' })
  const bar = el('progress', { max: 1, value: 0, hidden: true, 'aria-label': 'Checked' })
  const check = el('button', { type: 'button', hidden: true, onclick: () => void verify() }, 'Verify the journal')
  fill(place, el('h2', null, 'The journal'), facts, segments, el('div.row', null, check, bar), result)
  const readSoon = calmly(read, REFRESH_MS)
  server.addEventListener('head', () => {
    if (!document.hidden) readSoon()
  })
  return { read: readSoon }

  async function read() {
    if (server.state === 'gone') return
    const body = await server.health().catch(() => undefined)
    if (!body) return
    const { status, position, journal, dataFile, store, cluster } = body
    const lag = dataFile ? Math.max(0, position - (dataFile.position ?? position)) : 0
    /** @type {[string, Node | string | undefined][]} */
    const all = [
      ['State', el('span', { className: `badge ${status}` }, status)],
      ['Position', count(position)],
      ['Data file', dataFile && `${dataFile.state}${lag > 0 ? `, ${counted(lag, 'event')} behind` : ''}`],
      ['Store', store && `${store.state} at ${count(store.position)}`],
      ['Cluster', cluster && `${cluster.role}${cluster.lag ? `, ${counted(cluster.lag, 'event')} behind` : ''}`],
      ['Writes', body.readOnly ? 'refused, read-only' : journal.writable ? 'accepted' : 'refused'],
      ['Identity', el('span.mono.break', null, journal.id)],
      ['Detail', dataFile?.detail && visible(dataFile.detail)],
    ]
    const shown = all.filter(([, value]) => value)
    fill(
      facts,
      shown.map(([name, value]) => el('div', null, el('dt', null, name), el('dd.number', null, value))),
    )
    drawSegments(journal.segments ?? [])
    check.hidden = !server.may('admin')
  }

  /** @param {{ first: number, size: number, compressed: boolean }[]} all */
  function drawSegments(all) {
    const total = all.reduce((sum, { size }) => sum + size, 0)
    const most = Math.max(1, ...all.map(({ size }) => size))
    segments.hidden = all.length === 0
    fill(
      segments,
      el('h3', null, `${counted(all.length, 'segment')}, ${bytes(total)}`),
      el(
        'ul',
        { tabIndex: 0, 'aria-label': 'Segments' },
        all
          .slice(-SHOWN_SEGMENTS)
          .reverse()
          .map(({ first, size, compressed }) => {
            const share = el('span.share', { 'aria-hidden': 'true' })
            share.style.width = `${(size / most) * 100}%`
            return el(
              'li.number',
              null,
              el('span', null, `from ${count(first)}`),
              el('span', null, `${bytes(size)}${compressed ? ', compressed' : ''}`),
              share,
            )
          }),
      ),
    )
  }

  /** Reads what the server tells of its check as it comes. */
  async function verify() {
    check.disabled = true
    bar.hidden = false
    bar.value = 0
    setText(result, 'Checking…')
    result.classList.remove('bad-text')
    try {
      const response = await fetch(`${base}/admin/verify`, {
        method: 'POST',
        credentials: 'omit',
        headers: headersOf(session.credentials),
      })
      if (!response.ok || !response.body) throw new Error(`The response was ${response.status}.`)
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        const lines = (rest + value).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line !== '') told(JSON.parse(line))
      }
    } catch (error) {
      setText(result, error instanceof Error ? error.message : String(error))
      result.classList.add('bad-text')
    }
    check.disabled = false
    bar.hidden = true
  }

  /** @param {{ position: number, of?: number, ok?: boolean, problem?: string }} line */
  function told({ position, of, ok, problem }) {
    if (of !== undefined) {
      bar.max = Math.max(1, of)
      bar.value = position
      setText(result, `Checking… ${count(position)} of ${count(of)}`)
    } else if (ok)
      setText(result, `Whole: ${counted(position, 'event')}, every record in its place and as it was written.`)
    else if (ok === false) {
      setText(result, `Damaged: ${visible(problem ?? '')}`)
      result.classList.add('bad-text')
    }
  }
}
