import { median, type Reached, type Row, ratios, reached, type Series } from './figures.ts'

export interface Measured {
  readonly group: string
  readonly rows: readonly Row[]
  /** Why there are no rows. */
  readonly failure?: string
}

/** Whom every row is to be ahead of. */
const RIVALS = /^(json-server|Fastify)/

export function missed(all: readonly Measured[]): number {
  const goals = all
    .flatMap(({ rows }) => rows)
    .flatMap((row) => [...reached(row).map(({ isMet }) => isMet), ...(isAhead(row) ?? [])])
  return goals.filter((isMet) => !isMet).length + all.filter(({ failure }) => failure !== undefined).length
}

/** The table, in Markdown. */
export function tableOf(all: readonly Measured[]): string {
  const lines = ['| Work | Recollect | Goal | Measured | | Others |', '|---|---|---|---|---|---|']
  for (const { group, rows, failure } of all) {
    if (failure !== undefined)
      lines.push(`| ${group} | could not be measured: ${oneLine(failure)} | | | **missed** | |`)
    for (const row of rows) lines.push(...linesOf(row))
  }
  const rivalries = all
    .flatMap(({ rows }) => rows)
    .flatMap((row) => (isAhead(row) ?? []).map((ahead) => ({ row, ahead })))
  if (rivalries.length > 0) {
    const behind = rivalries.filter(({ ahead }) => !ahead).map(({ row }) => row.work)
    const said = `${rivalries.length - behind.length} of ${rivalries.length}`
    const others = behind.length > 0 ? `behind: ${behind.join('; ')}` : ''
    lines.push(
      `| every row, against json-server and Fastify + better-sqlite3 | | ahead | ${said} | ${verdict(behind.length === 0)} | ${others} |`,
    )
  }
  const notes = all.flatMap(({ rows }) => rows).filter(({ note }) => note !== undefined)
  return [...lines, '', ...notes.map(({ work, note }) => `- ${work}: ${note}`)].join('\n')
}

function linesOf(row: Row): readonly string[] {
  const goals = reached(row)
  const others = row.others.map((other) => `${other.name} ${shown(other)} (${ratioText(row.ours, other)})`).join('; ')
  const first = `| ${row.work} | ${shown(row.ours)} |`
  if (goals.length === 0) return [`${first} | | | ${others} |`]
  return goals.map((one, index) => {
    const start = index === 0 ? first : '| | |'
    return `${start} ${one.goal.text} | ${measured(one, row)} | ${verdict(one.isMet)} | ${index === 0 ? others : ''} |`
  })
}

function verdict(isMet: boolean): string {
  return isMet ? 'met' : '**missed**'
}

/** Median, and in brackets the lowest and the highest of the rounds. */
function spread(values: readonly number[], digits = 3): string {
  const text = (value: number) => rounded(value, digits)
  const middle = text(median(values))
  return values.length < 2 ? middle : `${middle} (${text(Math.min(...values))}–${text(Math.max(...values))})`
}

function measured({ goal, values }: Reached, { ours }: Row): string {
  return goal.against ? `${spread(values)} ×` : `${spread(values)} ${ours.unit}`
}

function shown({ values, unit }: Series): string {
  return `${rounded(median(values), 3)} ${unit}`
}

function ratioText(ours: Series, other: Series): string {
  return `${rounded(median(ratios({ ...other }, ours)), 2)} of ours`
}

function rounded(value: number, digits: number): string {
  if (!Number.isFinite(value)) return String(value)
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US')
  return String(Number(value.toPrecision(digits)))
}

function isAhead({ ours, others, better }: Row): readonly boolean[] | undefined {
  const rivals = others.filter(({ name }) => RIVALS.test(name))
  return rivals.map((rival) =>
    better === 'more' ? median(ours.values) > median(rival.values) : median(ours.values) < median(rival.values),
  )
}

function oneLine(text: string): string {
  return text.split('\n', 1)[0]?.replaceAll('|', '\\|') ?? ''
}
