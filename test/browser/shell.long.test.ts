import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { authentication, keyOf, passwordOf } from '../support/authentication.ts'
import { barriers, openPage, withoutBrowser } from '../support/browser.ts'
import { freePort } from '../support/process.ts'
import { json, startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))
const MAC = 'DC:25:EF:B0:3A:11'
const options = { skip: withoutBrowser }

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const cell = (text: string): string => `#table tr:has-text("${MAC}") td >> text="${text}"`
const humidity = (value: number) => json('PATCH', { data: { humidity: value } })

test('every page reports that the server was killed, and catches up when it is started again', options, async (t) => {
  const url = `http://127.0.0.1:${await freePort()}`
  const flags = ['--file', 'db.json', '--urls', url]
  const first = await startProgram(t, { data: SAMPLE, isBare: true, flags })
  const opened = [
    { path: '/collections.html', before: cell('42.5'), after: cell('7') },
    {
      path: '/sensors.html',
      before: `#tiles li:has-text("${MAC}") .rest:has-text("humidity 42.5,")`,
      after: `#tiles li:has-text("${MAC}") .rest:has-text("humidity 7,")`,
    },
    { path: '/journal.html', before: '#list :text("created")', after: '#list :text-matches("6 → 7")' },
    { path: '/', before: '.what-row .total:text-is("5 items")', after: '.feed :text-matches("6 → 7")' },
  ]
  const pages: { page: Page; after: string }[] = []
  /** The pages open their connections once this is resolved. */
  let connecting = Promise.resolve()
  for (const { path, before, after } of opened) {
    const { page } = await openPage(t, first.url + path)
    // Routes apply from the next load of the page on.
    await page.routeWebSocket(/socket\.io/, (socket) => connecting.then(() => void socket.connectToServer()))
    await page.route(/socket\.io/, (request) => connecting.then(() => request.continue()))
    await page.reload()
    await live(page)
    await page.locator(before).first().waitFor()
    pages.push({ page, after })
  }
  await first.stop('SIGKILL')
  for (const { page } of pages) await page.locator('#state[data-state=gone]:text-is("Reconnecting…")').waitFor()

  let resolve = (): void => {}
  connecting = new Promise((done) => {
    resolve = done
  })
  const elsewhere = await startProgram(t, { directory: first.directory })
  for (let value = 1; value <= 7; value++) await elsewhere.fetch(`/api/sensors/${MAC}`, humidity(value))
  await elsewhere.stop()
  await startProgram(t, { directory: first.directory, isBare: true, flags })
  for (const { page } of pages) assert.match(await page.title(), /^\(offline\) /)
  resolve()
  // Each page shows this for only eight seconds.
  await Promise.all(pages.map(({ page }) => page.getByText('Live, 7 changes caught up').first().waitFor()))
  for (const { page, after } of pages) await page.locator(after).first().waitFor()
})

test('the slider shows the state of the API at that moment, and returns to live updates', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  for (let value = 1; value <= 5; value++) await server.fetch(`/api/sensors/${MAC}`, humidity(value))
  const { page, errors } = await openPage(t, `${server.url}/collections.html?collection=sensors`)
  await live(page)
  await page.locator(cell('5')).waitFor()
  const slider = page.getByRole('slider', { name: 'Moment' })
  await slider.focus()
  for (const at of [41, 40, 39]) {
    await page.keyboard.press('ArrowLeft')
    await page.waitForURL((url) => url.searchParams.get('at') === String(at))
    await page.locator(cell(String(at - 37))).waitFor()
    assert.ok(await page.getByRole('button', { name: 'New item' }).isHidden(), 'nothing is written in the past')
  }
  assert.match(String(await slider.getAttribute('aria-valuetext')), /^[\d:]+, position 39 of 42$/)
  assert.deepEqual(await barriers(page), [])

  await server.fetch(`/api/sensors/${MAC}`, humidity(6))
  for (let times = 0; times < 3; times++) await page.keyboard.press('ArrowRight')
  await page.locator(cell('5')).waitFor()
  await page.keyboard.press('ArrowRight')
  await page.locator(cell('6')).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('at'), null)
  await page.keyboard.press('ArrowLeft')
  await page.locator(cell('5')).waitFor()
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.locator(cell('6')).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('at'), null)
  assert.deepEqual(errors, [])
})

test('a moment may be selected by its time, and the other pages show the same one', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { time } = (await (await server.fetch('/events/37')).json()) as { time: string }
  const { page, errors } = await openPage(t, `${server.url}/?at=${time}`)
  await page.locator('nav a[href="journal.html?at=37"]').waitFor()
  assert.deepEqual(errors, [])
})

for (const scheme of ['token', 'basic', 'apikey']) {
  test(`a user who signs in by ${scheme} can do what the role allows, until signing out`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE, flags: authentication(['token', 'basic', 'apikey']) })
    const { page } = await openPage(t, `${server.url}/collections.html?collection=sensors`)
    await page.locator('#state:text-is("Not signed in")').waitFor()
    assert.equal(await page.locator('#table tbody tr').count(), 0)
    const signIn = async (role: 'reader' | 'admin', isRight: boolean) => {
      await page.locator('#account').click()
      const dialog = page.getByRole('dialog')
      const names = { token: 'Name and password', basic: 'Name and password, sent each time', apikey: 'API key' }
      await dialog.getByRole('button', { name: names[scheme as 'token'], exact: true }).click()
      if (scheme === 'apikey') await dialog.getByLabel('API key').fill(isRight ? keyOf(role) : 'wrong')
      else {
        await dialog.getByLabel('Name', { exact: true }).fill(role)
        await dialog.getByLabel('Password', { exact: true }).fill(isRight ? passwordOf(role) : 'wrong')
      }
      await dialog.getByRole('button', { name: 'Sign in' }).click()
    }
    await signIn('reader', false)
    await page.getByText('The credentials are wrong.').waitFor()
    assert.deepEqual(await barriers(page), [])
    await page.getByRole('button', { name: 'Cancel' }).click()
    await signIn('reader', true)
    await live(page)
    await page.locator(cell('42.5')).waitFor()
    assert.ok(await page.getByRole('button', { name: 'New item' }).isHidden())
    await page.reload()
    await page.locator(cell('42.5')).waitFor()
    await page.getByText('(reader)').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.locator('#state:text-is("Not signed in")').waitFor()
    assert.equal(await page.locator('#table:visible tbody tr').count(), 0)
    await signIn('admin', true)
    await page.getByRole('button', { name: 'New item' }).waitFor()
  })
}

test('the page reports an expired token and offers to sign in again', options, async (t) => {
  let passedMs = 0
  const server = await startHere(t, {
    data: SAMPLE,
    flags: authentication(['token'], ['--Authentication.Token.ExpiresInSeconds', '3600']),
    now: () => new Date(Date.now() + passedMs),
  })
  const { page } = await openPage(t, server.url)
  await page.locator('#account').click()
  await page.getByLabel('Name', { exact: true }).fill('reader')
  await page.getByLabel('Password', { exact: true }).fill(passwordOf('reader'))
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click()
  await live(page)
  passedMs = 3_600_000
  await page.locator('#state:text-is("Not signed in")').waitFor()
  await page.locator('#refused').getByRole('button', { name: 'Sign in' }).waitFor()
})

test('all controls can be reached with the keyboard alone', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page } = await openPage(t, `${server.url}/collections.html?collection=sensors`)
  await page.locator(cell('42.5')).waitFor()
  const seen = new Set<string>()
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab')
    seen.add(
      String(
        await page.evaluate(
          "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()",
        ),
      ),
    )
  }
  for (const name of [
    'To the content',
    'Recollect, home',
    'Journal',
    'Moment',
    'Zoom in',
    'Query',
    'New item',
    'F4:A5:74:89:16:57',
  ]) {
    assert.ok(seen.has(name), `${name} is among ${[...seen].join(', ')}`)
  }
  assert.ok([...seen].some((name) => name.includes('Replay')))
  // One of the cells is a tab stop; arrow keys lead to the others.
  await page.locator('#table [tabindex="0"]').focus()
  await page.keyboard.press('ArrowLeft')
  await page.locator('#table [aria-label="Select F4:A5:74:89:16:57"]:focus').waitFor()
  await page.getByRole('slider', { name: 'Moment' }).focus()
  await page.keyboard.press('ArrowLeft')
  await page.waitForURL((url) => url.searchParams.get('at') === '36')
  await page.keyboard.press('End')
  await page.waitForURL((url) => !url.searchParams.has('at'))
})
