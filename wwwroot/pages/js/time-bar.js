// The time slider: from the first event to the last, one step an event. It plays what happened, as fast as it
// happened or up to a thousand times as fast; times in which nothing happened are cut short.
import { address } from './address.js'
import { calmly, el, setText } from './dom.js'
import { count, dateTime } from './format.js'
import { moment, positionAt, timeOf } from './moment.js'
import { server } from './server.js'

const SPEEDS = [1, 2, 5, 10, 30, 60, 100, 300, 1000]
const TICK_MS = 200
/** So long nothing may happen while it plays. */
const IDLE_MS = 1500
const SETTLE_MS = 100

/** @returns {HTMLElement} */
export function timeBar() {
  let isPlaying = false
  /** Where the hand is while it drags. @type {number | undefined} */
  let dragged
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let settling

  const live = el('button.live-button', { type: 'button', onclick: () => show(undefined) }, 'Live')
  const play = el('button.step', { type: 'button', onclick: () => (isPlaying ? stop() : start()) })
  const back = el('button.step.back', { type: 'button', 'aria-label': 'One event back', onclick: () => step(-1) }, '‹')
  const forth = el('button.step.forth', { type: 'button', 'aria-label': 'One event on', onclick: () => step(1) }, '›')
  const speed = el(
    'select',
    { 'aria-label': 'Speed', onchange: () => address.set({ speed: speed.value === '10' ? undefined : speed.value }) },
    SPEEDS.map((times) => el('option', { value: String(times) }, `×${times}`)),
  )
  const asked = address.get('speed') ?? '10'
  speed.value = SPEEDS.includes(Number(asked)) ? asked : '10'
  const slider = el('input', { type: 'range', min: '0', step: '1', 'aria-label': 'Moment' })
  const when = el('span.when')
  const where = el('span.where')
  const output = el('p.shown', null, when, ' · ', where)
  const bar = el(
    'div.time-bar',
    { role: 'group', 'aria-label': 'Time' },
    live,
    play,
    speed,
    back,
    slider,
    forth,
    output,
  )

  slider.addEventListener('input', () => {
    dragged = Number(slider.value)
    stop()
    clearTimeout(settling)
    settling = setTimeout(settle, SETTLE_MS)
  })
  slider.addEventListener('change', settle)
  moment.addEventListener('change', draw)
  server.addEventListener('head', calmly(draw, 250))
  server.addEventListener('access', draw)
  const labelTime = calmly(writeTime, 60)
  draw()
  return bar

  function settle() {
    clearTimeout(settling)
    if (dragged === undefined) return
    const to = dragged
    dragged = undefined
    moment.show(to >= Number(slider.max) ? undefined : to)
    draw()
  }

  /** @param {number | undefined} at */
  function show(at) {
    stop()
    clearTimeout(settling)
    dragged = undefined
    moment.show(at)
    draw()
  }

  /** @param {number} by */
  function step(by) {
    const to = Math.max(0, (moment.at ?? server.head) + by)
    show(to >= server.head && by > 0 ? undefined : to)
  }

  function draw() {
    document.documentElement.classList.toggle('past', moment.at !== undefined)
    live.setAttribute('aria-pressed', String(moment.at === undefined))
    setText(play, isPlaying ? '❚❚' : '▶')
    play.setAttribute('aria-label', isPlaying ? 'Pause' : 'Play')
    forth.disabled = moment.at === undefined
    if (dragged === undefined) {
      slider.max = String(Math.max(server.head, moment.at ?? 0))
      slider.value = String(moment.at ?? server.head)
    }
    label()
  }

  function label() {
    const at = dragged ?? moment.at
    setText(
      where,
      at === undefined ? `position ${count(server.head)}` : `position ${count(at)} of ${count(server.head)}`,
    )
    if (at === undefined) setText(when, 'Now')
    else if (at === 0) setText(when, 'Before the first event')
    else if (server.access.role !== null) labelTime()
    describe()
  }

  async function writeTime() {
    const at = dragged ?? moment.at
    if (!at) return
    const ms = await timeOf(at).catch(() => undefined)
    if (ms === undefined || at !== (dragged ?? moment.at)) return
    setText(when, dateTime(ms, { withMs: true }))
    describe()
  }

  function describe() {
    slider.setAttribute('aria-valuetext', `${when.textContent}, ${where.textContent}`)
  }

  function stop() {
    isPlaying = false
    draw()
  }

  async function start() {
    isPlaying = true
    draw()
    try {
      // Played from where one is; from the beginning when that is now.
      if (moment.at === undefined || moment.at === 0) moment.show(Math.min(1, server.head))
      let time = moment.at ? await timeOf(moment.at) : 0
      while (isPlaying && moment.at !== undefined) {
        const from = moment.at
        const began = performance.now()
        await new Promise((resolve) => setTimeout(resolve, TICK_MS))
        if (!isPlaying || moment.at !== from) break
        if (from >= server.head) {
          moment.show(undefined)
          break
        }
        const rate = Number(speed.value)
        time += (performance.now() - began) * rate
        const next = await timeOf(from + 1)
        if (next - time > IDLE_MS * rate) time = next
        if (next > time) continue
        const to = time >= Date.now() ? server.head : await positionAt(new Date(time).toISOString())
        if (isPlaying && moment.at === from) moment.show(Math.max(to, from))
      }
    } catch {
      // The server is gone, which the page says elsewhere.
    }
    isPlaying = false
    draw()
  }
}
