// The result of the query as a file, and the query as text for other programs.
import { signal } from '@preact/signals'
import { client } from './app.ts'
import { base } from './base.ts'
import { Button, Menu } from './controls.tsx'
import { say } from './messages.tsx'
import { isGrouped, query, withoutPaging, withPaging } from './query.ts'
import { collection, pathOfQuery } from './rows.ts'
import { showProblem } from './shell.tsx'

const TYPES = { csv: 'text/csv', ndjson: 'application/x-ndjson' } as const
const isDownloading = signal(false)

export function Export() {
  const choice = (name: string, run: () => Promise<void>) => (
    <Button text={name} class="plain" run={() => run().catch(showProblem)} />
  )
  return (
    <Menu label={isDownloading.value ? 'Downloading…' : 'Export'}>
      {choice('Download CSV', () => download('csv'))}
      {choice('Download NDJSON', () => download('ndjson'))}
      {choice('Copy as curl', () => copy(`curl '${base}${pathOfPage()}'`, 'sh'))}
      {choice('Copy as JavaScript', () => copy(scriptOf(base + pathOfPage()), 'js'))}
      {choice('Copy rows as CSV', async () => {
        const response = await client.request('GET', pathOfPage(), { headers: { Accept: TYPES.csv } })
        await copy(response.text(), 'csv')
      })}
    </Menu>
  )
}

const pathOfPage = (): string => pathOfQuery(collection.value ?? '', withPaging(query.value))

function scriptOf(address: string): string {
  return `const response = await fetch(${JSON.stringify(address)})\nconst items = await response.json()`
}

/** The clipboard needs HTTPS, unless the server is on this machine. Without it the text becomes a file. */
async function copy(text: string, ending: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say('Copied.')
  } catch {
    save(new Blob([text]), ending)
  }
}

/** All pages of the result. */
async function download(format: keyof typeof TYPES): Promise<void> {
  const all = withoutPaging(query.value)
  if (!isGrouped(all)) all.set('all', 'true')
  isDownloading.value = true
  try {
    const path = pathOfQuery(collection.value ?? '', all)
    const response = await client.stream(path, { headers: { Accept: TYPES[format] } })
    // The browser may put it on disk while it arrives.
    save(await response.blob(), format)
  } finally {
    isDownloading.value = false
  }
}

function save(file: Blob, ending: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = `${collection.value}.${ending}`
  link.click()
  URL.revokeObjectURL(link.href)
}
