// The result of the query as a file, and the query as text for other programs.
import { signal } from '@preact/signals'
import { base, client, health } from './app.ts'
import { Button, Dialog, Menu, set } from './controls.tsx'
import { say } from './messages.tsx'
import { isGrouped, query, withoutPaging, withPaging } from './query.ts'
import { collection, pathOfQuery } from './rows.ts'
import { showProblem } from './shell.tsx'

const TYPES = { csv: 'text/csv', ndjson: 'application/x-ndjson' } as const
/** Those that a server needs, by its scheme: the ones that are used here are not shown. */
const CREDENTIALS = {
  token: ['Authorization', 'Bearer TOKEN'],
  basic: ['Authorization', 'Basic BASE64'],
  apikey: ['X-API-KEY', 'KEY'],
} as const

const isDownloading = signal(false)
/** Text that the browser does not let the page copy. */
const uncopied = signal<string>()

export function Export() {
  const choice = (name: string, run: () => Promise<void>) => (
    <Button text={name} class="plain" run={() => run().catch(showProblem)} />
  )
  const close = set(uncopied, undefined)
  return (
    <>
      <Menu label={isDownloading.value ? 'Downloading…' : 'Export'}>
        {choice('Download CSV', () => download('csv'))}
        {choice('Download NDJSON', () => download('ndjson'))}
        {choice('Copy as curl', () => copy(commandOf()))}
        {choice('Copy as JavaScript', () => copy(scriptOf()))}
        {choice('Copy rows as CSV', async () => {
          const response = await client.request('GET', pathOfPage(), { headers: { Accept: TYPES.csv } })
          await copy(response.text())
        })}
      </Menu>
      {uncopied.value !== undefined && (
        <Dialog title="Copy this text" action="Done" onSubmit={close} onClose={close}>
          <textarea class="mono" readOnly rows={8} value={uncopied.value} aria-label="Text" />
        </Dialog>
      )}
    </>
  )
}

const pathOfPage = (): string => pathOfQuery(collection.value ?? '', withPaging(query.value))

function credentials(): readonly (readonly [string, string])[] {
  const [scheme] = health.value?.access.schemes ?? []
  return scheme ? [CREDENTIALS[scheme]] : []
}

function commandOf(): string {
  return ['curl', ...credentials().map((header) => `-H '${header.join(': ')}'`), `'${base}${pathOfPage()}'`].join(' ')
}

function scriptOf(): string {
  const options = JSON.stringify({ headers: Object.fromEntries(credentials()) })
  const address = JSON.stringify(base + pathOfPage())
  return `const response = await fetch(${address}, ${options})\nconst items = await response.json()`
}

/** The clipboard needs HTTPS, unless the server is on this machine. */
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say('Copied.')
  } catch {
    uncopied.value = text
  }
}

/** All pages of the result. */
async function download(format: keyof typeof TYPES): Promise<void> {
  const name = collection.value ?? ''
  const all = withoutPaging(query.value)
  if (!isGrouped(all)) all.set('all', 'true')
  isDownloading.value = true
  try {
    const response = await client.stream(pathOfQuery(name, all), { headers: { Accept: TYPES[format] } })
    const link = document.createElement('a')
    // The browser may put it on disk while it arrives.
    link.href = URL.createObjectURL(await response.blob())
    link.download = `${name}.${format}`
    link.click()
    URL.revokeObjectURL(link.href)
  } finally {
    isDownloading.value = false
  }
}
