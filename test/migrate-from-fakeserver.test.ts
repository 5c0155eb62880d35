import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { once } from './support/deadline.ts'
import { send } from './support/requests.ts'
import { startHere } from './support/service.ts'

const PAGE = readFileSync(new URL('../docs/migrate-from-fakeserver.md', import.meta.url), 'utf8')
const DATA = JSON.parse(/^```json\n([\s\S]*?)^```$/m.exec(PAGE)?.[1] ?? '') as Record<string, unknown>

interface Row {
  readonly what: string
  readonly setting: readonly string[]
  readonly requests: readonly string[]
  readonly answer: readonly string[]
}

/** Text between backticks. */
const marked = (cell = ''): readonly string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text)

/** The rows of the tables that have requests and answers. */
function rows(): readonly Row[] {
  const tables = [...PAGE.matchAll(/^\| (What .*) \|\n\|[-|]+\|\n((?:\|.*\n)+)/gm)]
  return tables.flatMap(([, head = '', lines = '']) => {
    const names = head.split(' | ')
    return lines
      .trim()
      .split('\n')
      .map((line) => {
        const cells = line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim())
        assert.equal(cells.length, names.length, line)
        const cell = (name: string) => cells[names.indexOf(name)]
        const [setting = ''] = marked(cell('Setting'))
        return {
          what: cell('What') ?? '',
          setting: setting === '' ? [] : setting.split(/ (?=--)/).flatMap((flag) => splitOnce(flag)),
          requests: marked(cell('Request')),
          answer: marked(cell('Answer')),
        }
      })
  })
}

function splitOnce(text: string): readonly string[] {
  const at = text.indexOf(' ')
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

interface Asked {
  readonly method: string
  readonly path: string
  readonly body: string | undefined
  readonly headers: Record<string, string>
}

/** Requests with the headers that follow each of them. */
function requestsOf(marks: readonly string[]): readonly Asked[] {
  const all: Asked[] = []
  for (const mark of marks) {
    const [, method, path, body] = /^([A-Z]+) (\/\S*)(?: (.*))?$/.exec(mark) ?? []
    if (method !== undefined && path !== undefined) all.push({ method, path, body, headers: {} })
    else {
      const [name = '', value = ''] = mark.split(': ')
      const last = all.at(-1)
      assert.ok(last, `${mark} belongs to a request`)
      last.headers[name] = value
    }
  }
  return all
}

interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Sends a request; what stands in braces is that of the answer before. */
async function ask(url: string, { method, path, body, headers }: Asked, before?: Answered): Promise<Answered> {
  const members = before?.text.startsWith('{') ? (JSON.parse(before.text) as Record<string, unknown>) : {}
  const filled = Object.entries(headers).map(([name, value]): [string, string] => [
    name,
    value.replace(/\{(\w+)\}/g, (_, member: string) =>
      String(members[member] ?? before?.headers[member.toLowerCase()]),
    ),
  ])
  const isForm = body !== undefined && !/^["[{]/.test(body)
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json'
  return send(url, method, path, {
    headers: { ...(body !== undefined && { 'Content-Type': type }), ...Object.fromEntries(filled) },
    ...(body !== undefined && { body }),
  })
}

async function check(url: string, { requests, answer }: Row): Promise<void> {
  const [first, ...others] = requestsOf(requests)
  const socket = first?.method === 'WS' ? new WebSocket(url.replace('http', 'ws') + first.path) : undefined
  const message = socket && once(socket, 'message')
  if (socket) await once(socket, 'open')
  let answered: Answered | undefined
  for (const request of socket ? others : requestsOf(requests)) {
    if (answered) assert.ok(answered.status < 300, answered.text)
    answered = await ask(url, request, answered)
  }
  const [expected = '', ...headers] = answer
  const [status = '', body] = splitOnce(expected)
  if (socket) {
    const [data] = (await message) as [Buffer]
    socket.terminate()
    const told = JSON.parse(data.toString()) as Record<string, unknown>
    assert.deepEqual({ ...told, ...(JSON.parse(body ?? '') as object) }, told)
    return
  }
  assert.equal(String(answered?.status), status, answered?.text)
  if (body !== undefined) assert.deepEqual(JSON.parse(answered?.text ?? ''), JSON.parse(body))
  for (const header of headers) {
    const [name = '', value = ''] = header.split(': ')
    assert.ok(String(answered?.headers[name.toLowerCase()]).includes(value), header)
  }
}

const ROWS = rows()
const bySetting = new Map<string, Row[]>()
for (const row of ROWS) {
  const key = row.setting.join(' ')
  bySetting.set(key, [...(bySetting.get(key) ?? []), row])
}

for (const [key, all] of bySetting) {
  test(`docs/migrate-from-fakeserver.md is right${key === '' ? '' : ` with ${key}`}`, async (t) => {
    const [{ setting, answer } = { setting: [], answer: [] }] = all
    const [, why] = /^refused: (.*)$/.exec(answer[0] ?? '') ?? []
    if (why !== undefined) {
      assert.equal(all.length, 1)
      return assert.rejects(startHere(t, { data: DATA, flags: setting }), (error: Error) => error.message.includes(why))
    }
    const { url } = await startHere(t, { data: DATA, flags: setting })
    for (const row of all) {
      await t.test(row.what, () => check(url, row))
      // Where not everybody may, nothing has been changed.
      await ask(url, { method: 'POST', path: '/api', body: JSON.stringify(DATA), headers: {} })
    }
  })
}

test('docs/migrate-from-fakeserver.md has rows of all three kinds', () => {
  assert.ok(ROWS.length > 75, String(ROWS.length))
  for (const heading of ['What is the same', 'What differs', 'What is not planned'])
    assert.ok(PAGE.includes(`## ${heading}`))
})
