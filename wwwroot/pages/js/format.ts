// How values are written for people.

const GROUPED = new Intl.NumberFormat('en-GB')
const DATE = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', year: 'numeric' })
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })

export function count(value: number): string {
  return GROUPED.format(value)
}

export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  let size = value
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 2 : 1)} ${units[unit]}`
}

/** In the reader's own time zone. */
export function dateTime(ms: number, { withMs = false } = {}): string {
  const date = new Date(ms)
  if (Number.isNaN(date.getTime())) return '–'
  return `${DATE.format(date)} ${time(ms, { withMs })}`
}

export function time(ms: number, { withMs = false } = {}): string {
  const date = new Date(ms)
  const clock = CLOCK.format(date)
  return withMs ? `${clock}.${String(date.getMilliseconds()).padStart(3, '0')}` : clock
}

const WEEKDAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short' })
const DAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })
const HOUR = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

/** A moment as one says it beside another: the clock of today, the weekday of a week ago, otherwise the date. */
export function moment(ms: number, now: number, { withSeconds = false } = {}): string {
  const date = new Date(ms)
  const clock = (withSeconds ? CLOCK : HOUR).format(date)
  const days = Math.round((new Date(now).setHours(12, 0, 0, 0) - new Date(ms).setHours(12, 0, 0, 0)) / 86_400_000)
  if (days === 0) return clock
  if (days > 0 && days < 7) return `${WEEKDAY.format(date)} ${clock}`
  return `${date.getFullYear() === new Date(now).getFullYear() ? DAY.format(date) : DATE.format(date)} ${clock}`
}

/** A duration up to now in milliseconds, as in `5 min ago`. */
export function age(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < -5) return `in ${span(-seconds)}`
  if (seconds < 2) return 'now'
  return `${span(seconds)} ago`
}

/** A duration in the largest unit that says enough, as in `38 h`. */
export function span(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`
  return `${count(Math.round(seconds / 86_400))} days`
}

// Controls, marks that turn the direction of text, and what has no width: they would be seen by what they do.
const UNSEEN = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu

/** Text as it can be looked at: what is invisible in it, or turns its direction, is written as an escape. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (sign) =>
    sign === '\n' ? '⏎' : sign === '\t' ? '⇥' : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A value on one line. */
export function short(value: unknown, most = 200): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return visible(cut(value, most))
  if (typeof value !== 'object' || value === null) return String(value)
  return visible(cut(beginning(value, most), most))
}

/** A value's JSON, which may break off after more than so many characters: a value may be long, and little of it is shown. */
function beginning(value: unknown, most: number): string {
  let text = ''
  write(value)
  return text

  function write(value: unknown): void {
    if (typeof value === 'string') text += JSON.stringify(value.slice(0, most))
    else if (typeof value !== 'object' || value === null) text += String(value)
    else if (Array.isArray(value)) {
      text += '['
      for (let index = 0; index < value.length && text.length <= most; index++) {
        if (index > 0) text += ','
        write(value[index])
      }
      text += ']'
    } else {
      text += '{'
      let comma = ''
      for (const [name, member] of Object.entries(value)) {
        if (text.length > most) break
        text += `${comma}${JSON.stringify(name.slice(0, most))}:`
        write(member)
        comma = ','
      }
      text += '}'
    }
  }
}

function cut(text: string, most: number): string {
  if (text.length <= most) return text
  // Not in the middle of a pair.
  const end = /[\ud800-\udbff]/.test(text[most - 1] ?? '') ? most - 1 : most
  return `${text.slice(0, end)}…`
}
