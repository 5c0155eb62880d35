import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { authentication, basic, passwordOf } from '../support/authentication.ts'
import { fetch } from '../support/deadline.ts'
import { openClosing } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'
import { startServer } from '../support/service.ts'

const LIMIT = 64 * 1024
const flags = ['--Limits.BodyBytes', `${LIMIT}`, '--Limits.FailuresPerMinute', '5']
const data = { things: [{ id: 1 }] }
const open = await startServer({ after }, { data, flags })
const guarded = await startServer({ after }, { data, flags: authentication(['token', 'basic'], flags) })

const ADMIN = `Authorization: ${basic('admin', passwordOf('admin'))}`
const JSON_TYPE = 'Content-Type: application/json'
const GZIP = `${JSON_TYPE}\r\nContent-Encoding: gzip`
const FORM = 'Content-Type: multipart/form-data; boundary=b'

/** Longer than what a stream holds back when it is not read any further. */
const LONG = 400 * 1024
const long = Buffer.from(JSON.stringify({ text: 'x'.repeat(LONG) }))
const endless = Buffer.from(JSON.stringify({ text: 'x'.repeat(8 * 1024 * 1024) }))
const bomb = gzipSync(Buffer.concat([Buffer.alloc(200 * LIMIT, ' '), randomBytes(LONG)]))
const broken = Buffer.concat([Buffer.from('1f8b0800000000000003', 'hex'), Buffer.alloc(LONG, 'x')])
const form = Buffer.from(`--b\r\nContent-Disposition: form-data; name="username"\r\n\r\n${'x'.repeat(LONG)}\r\n`)

interface Refused {
  readonly about: string
  readonly line: string
  readonly fields: string
  readonly body: Buffer
  readonly status: number
  readonly isGuarded?: true
}

const REFUSED: readonly Refused[] = [
  { about: 'too long', line: 'POST /api/things', fields: JSON_TYPE, body: long, status: 413 },
  { about: 'far too long', line: 'PUT /api/things/1', fields: JSON_TYPE, body: endless, status: 413 },
  { about: 'a gzip bomb', line: 'POST /api/things', fields: GZIP, body: bomb, status: 413 },
  { about: 'broken gzip', line: 'PATCH /api/things/1', fields: GZIP, body: broken.subarray(0, 200), status: 400 },
  { about: 'broken gzip that is too long', line: 'PATCH /api/things/1', fields: GZIP, body: broken, status: 413 },
  {
    about: 'an unknown coding',
    line: 'POST /api/things',
    fields: `${JSON_TYPE}\r\nContent-Encoding: x`,
    body: long,
    status: 415,
  },
  { about: 'another type', line: 'POST /api/things', fields: 'Content-Type: text/plain', body: long, status: 415 },
  { about: 'no such method', line: 'PATCH /api/things', fields: JSON_TYPE, body: long, status: 405 },
  { about: 'no such place', line: 'POST /nothing', fields: JSON_TYPE, body: endless, status: 404 },
  { about: 'the delete of nothing', line: 'DELETE /api/things/9', fields: JSON_TYPE, body: endless, status: 404 },
  { about: 'no item', line: 'PUT /api/things/9', fields: JSON_TYPE, body: Buffer.from('{"a":1}'), status: 404 },
  { about: 'another id', line: 'PUT /api/things/1', fields: JSON_TYPE, body: Buffer.from('{"id":2}'), status: 409 },
  { about: 'no object', line: 'POST /api/things', fields: JSON_TYPE, body: Buffer.from('[7]'), status: 422 },
  { about: 'a stranger', line: 'POST /api/things', fields: JSON_TYPE, body: long, status: 401, isGuarded: true },
  { about: 'credentials too long', line: 'POST /token', fields: JSON_TYPE, body: long, status: 413, isGuarded: true },
  { about: 'a credentials bomb', line: 'POST /token', fields: GZIP, body: bomb, status: 413, isGuarded: true },
  { about: 'broken credentials', line: 'POST /token', fields: GZIP, body: broken, status: 400, isGuarded: true },
  { about: 'a form too long', line: 'POST /token', fields: FORM, body: form, status: 413, isGuarded: true },
]

for (const { about, line, fields, body, status, isGuarded } of REFUSED) {
  for (const framing of ['with its length', 'chunked']) {
    for (const way of isGuarded ? [''] : ['', KOA_LINE]) {
      const name = `a refused body leaves a connection that works, or that says it ends: ${about} (${status}), ${framing}`
      test(way === '' ? name : `${name}, through Koa`, async (t) => {
        const { url } = isGuarded ? guarded : open
        const framed =
          framing === 'chunked'
            ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
            : body
        const length = framing === 'chunked' ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
        const head = [`${line} HTTP/1.1`, 'Host: localhost', fields, length, ...(way === '' ? [] : [way])].join('\r\n')
        const next = `GET /api/things/1 HTTP/1.1\r\nHost: localhost\r\n${ADMIN}\r\n\r\n`
        const connection = await openClosing(t, url)
        const { socket } = connection
        const half = Math.floor(framed.length / 2)
        socket.write(`${head}\r\n\r\n`)
        socket.write(framed.subarray(0, half))
        await new Promise((resolve) => setImmediate(resolve))
        socket.write(framed.subarray(half))
        socket.write(next)
        const refused = await connection.next()
        assert.equal(refused?.status, status)
        const second = await connection.next()
        if (refused?.headers.connection === 'close') assert.equal(second, undefined)
        else assert.equal(second?.status, 200)
        assert.equal(connection.failure, undefined)
        if (framed.length < 1000) assert.equal(second?.status, 200, 'a short body costs no connection')
      })
    }
  }
}

test('requests behind a rejected body are not executed when the connection ends', async (t) => {
  const connection = await openClosing(t, open.url)
  const before = await fetch(`${open.url}/api`).then((reply) => reply.headers.get('Journal-Position'))
  const chunk = `${endless.length.toString(16)}\r\n${endless}\r\n0\r\n\r\n`
  const write = `POST /api/things HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nContent-Length: 2\r\n\r\n{}`
  connection.socket.write(
    `POST /api/things HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  )
  connection.socket.write(chunk + write.repeat(3))
  const refused = await connection.next()
  assert.equal(refused?.status, 413)
  assert.equal(refused?.headers.connection, 'close')
  assert.equal(await connection.next(), undefined)
  const { headers } = await fetch(`${open.url}/api`)
  assert.equal(headers.get('Journal-Position'), before)
})
