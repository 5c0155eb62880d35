import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { neededRole } from '../../src/access/roles.ts'
import { headers, OF_EVENTS, parameters } from '../../src/http/openapi/parameters.ts'
import { PROBLEM_TEXTS } from '../../src/http/openapi/problems.ts'
import { methodsOf, type Operation, ROUTES } from '../../src/http/openapi/routes.ts'
import { PROBLEMS } from '../../src/http/problems.ts'
import { PREFERENCES } from '../../src/http/requests.ts'

const DOCUMENT = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8')
const EVERYTHING = { hasReset: true, hasTokens: true }

/** The tables of docs/api.md that the descriptions give: the rows by the header row. */
const TABLES: Readonly<Record<string, readonly string[]>> = {
  '| Request | Meaning | Responses | Problems | Role |': Object.entries(ROUTES).flatMap(([path, route]) =>
    methodsOf(path, EVERYTHING).map((method) => requestRow(method, path, route[method] as Operation)),
  ),
  '| Parameter of a query | Meaning |':
    ROUTES['/api/{collection}']?.GET?.parameters
      ?.map((name) => parameters[name])
      .filter((parameter) => parameter.in === 'query')
      .map(nameRow) ?? [],
  '| Parameter of `/events` | Meaning |': OF_EVENTS.map((name) => nameRow(parameters[name])),
  '| Request header | Meaning |': [
    ...Object.values(parameters)
      .filter((parameter) => parameter.in === 'header' && parameter.name !== 'Prefer')
      .map(nameRow),
    ...Object.entries(PREFERENCES).map(([name, description]) => nameRow({ name: `Prefer: ${name}`, description })),
  ],
  '| Response header | Meaning |': Object.entries(headers).map(([name, { description }]) =>
    nameRow({ name, description: String(description) }),
  ),
  '| Status | `type` ends with | When |': Object.entries(PROBLEM_TEXTS)
    .map(([code, text]) => ({ code, text, status: PROBLEMS[code as keyof typeof PROBLEMS].status }))
    .sort((a, b) => a.status - b.status)
    .map(({ status, code, text }) => `| ${status} | \`${code}\` | ${text} |`),
}

for (const [header, rows] of Object.entries(TABLES)) {
  test(`docs/api.md has the described rows below ${header}`, () => {
    const [, table = ''] = DOCUMENT.split(`\n${header}\n`)
    const [, ...shown] = (table.split('\n\n')[0] as string).split('\n')
    assert.deepEqual(shown, rows)
  })
}

function requestRow(method: string, path: string, operation: Operation): string {
  const { summary, description, responses, problems = [] } = operation
  const meaning = [`${summary}.`, description].filter(Boolean).join(' ')
  const answers = Object.entries(responses)
    .filter(([, { when }]) => when === undefined)
    .map(([status, { text }]) => `${status}: ${text}`)
  const refused = [...problems].sort().join(', ')
  const role = neededRole(method, path) ?? ''
  return `| \`${method} ${path}\` | ${meaning} | ${answers.join(' ')} | ${refused} | ${role} |`
}

function nameRow({ name, description }: { readonly name: string; readonly description: string }): string {
  return `| \`${name}\` | ${description} |`
}
