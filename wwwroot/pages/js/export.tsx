// The result of the query as a file, and the query as text for other programs.
import { signal } from '@preact/signals'
import { base, client, health } from './app.ts'
import { Button, Dialog, Menu, set } from './controls.tsx'
import { bytes } from './format.ts'
import { say } from './messages.tsx'
import { isGrouped, type Parameters, parse, place, withoutPaging, withPaging } from './query.ts'
import { collection, pathOfQuery } from './rows.ts'
import { showProblem } from './shell.tsx'

const TYPES = { csv: 'text/csv', ndjson: 'application/x-ndjson' } as const
/** Those that a server needs, by its scheme: the ones that are used here are not shown. */
const CREDENTIALS = {
  token: ['Authorization', 'Bearer TOKEN'],
  basic: ['Authorization', 'Basic BASE64'],
  apikey: ['X-API-KEY', 'KEY'],
} as const

/** Bytes that have arrived of a download. */
const downloaded = signal<number>()
const text = signal<string>()

export function Export() {
  const choice = (name: string, run: () => Promise<void>) => (
    <Button text={name} class="plain" run={() => run().catch(showProblem)} />
  )
  return (
    <>
      <Menu label={downloaded.value === undefined ? 'Export' : bytes(downloaded.value)}>
        {choice('Download CSV', () => download('csv'))}
        {choice('Download NDJSON', () => download('ndjson'))}
        {choice('Copy as curl', () => copy(commandOf()))}
        {choice('Copy as JavaScript', () => copy(scriptOf()))}
        {choice('Copy rows as CSV', async () => {
          const response = await client.request('GET', pathOfPage(), { headers: { Accept: TYPES.csv } })
          await copy(response.text())
        })}
      </Menu>
      {text.value !== undefined && (
        <Dialog title="Copy this text" action="Done" onSubmit={set(text, undefined)} onClose={set(text, undefined)}>
          <textarea class="mono" readOnly rows={8} value={text.value} aria-label="Text" />
        </Dialog>
      )}
    </>
  )
}

const pathOfPage = (): string => pathOfQuery(collection.value ?? '', withPaging(parse(place.value.query ?? '')))

function credentials(): readonly (readonly [string, string])[] {
  const [scheme] = health.value?.access.schemes ?? []
  return scheme ? [CREDENTIALS[scheme]] : []
}

function commandOf(): string {
  return ['curl', ...credentials().map((header) => `-H '${header.join(': ')}'`), `'${base}${pathOfPage()}'`].join(' ')
}

function scriptOf(): string {
  const headers = JSON.stringify(Object.fromEntries(credentials()))
  const options = headers === '{}' ? '' : `, { headers: ${headers} }`
  return `const response = await fetch(${JSON.stringify(base + pathOfPage())}${options})\nconst items = await response.json()`
}

/** The clipboard needs HTTPS, unless the server is on this machine. */
async function copy(copied: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(copied)
    say('Copied.')
  } catch {
    text.value = copied
  }
}

/** All pages of the result. The browser collects what arrives, and may put it on disk. */
async function download(format: keyof typeof TYPES): Promise<void> {
  const name = collection.value ?? ''
  const parameters = parse(place.value.query ?? '')
  const all: Parameters = isGrouped(parameters) ? parameters : [...withoutPaging(parameters), ['all', 'true']]
  downloaded.value = 0
  try {
    const response = await client.stream(pathOfQuery(name, all), { headers: { Accept: TYPES[format] } })
    const counting = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(part, out) {
        downloaded.value = (downloaded.value ?? 0) + part.length
        out.enqueue(part)
      },
    })
    const file = await new Response(response.body?.pipeThrough(counting)).blob()
    const link = document.createElement('a')
    link.href = URL.createObjectURL(file)
    link.download = `${name}.${format}`
    link.click()
    URL.revokeObjectURL(link.href)
  } finally {
    downloaded.value = undefined
  }
}
