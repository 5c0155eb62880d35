import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { withoutWebFonts } from '../../src/http/docs.ts'
import { startServer } from '../support/server.ts'

test("the Swagger page's policy allows its inline script by hash, and no other inline script", async (t) => {
  const server = await startServer(t, { data: {} })
  const reply = await server.fetch('/swagger/')
  const html = await reply.text()
  const [script, ...others] = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, text]) => String(text))
  assert.match(String(script), /SwaggerUIBundle/)
  assert.deepEqual(others, [])
  const policy = String(reply.headers.get('content-security-policy')).split('; ')
  const scripts = policy.find((directive) => directive.startsWith('script-src '))
  assert.equal(scripts, `script-src 'self' 'sha256-${hash('sha256', String(script), 'base64')}'`)
})

test('the Swagger page has no address of another host', async (t) => {
  const server = await startServer(t, { data: {} })
  const html = await (await server.fetch('/swagger/')).text()
  assert.doesNotMatch(html, /https?:\/\/(?!www\.w3\.org\/)/)
  for (const [, address] of html.matchAll(/(?:src|href)="([^"]+)"/g))
    assert.match(String(address), /^(?:\.\/)?assets\//)
})

test('only the line of the web fonts is removed from the page', () => {
  const fonts = '  <link href="https://fonts.googleapis.com/css?family=Open+Sans" rel="stylesheet">'
  assert.equal(
    withoutWebFonts(`<head>\n${fonts}\n  <style></style>\n</head>\n`),
    '<head>\n  <style></style>\n</head>\n',
  )
})
