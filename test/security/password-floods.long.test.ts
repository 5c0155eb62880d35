import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyOf } from '../support/authentication.ts'
import { until } from '../support/deadline.ts'
import { startProbed } from '../support/probe.ts'
import { openRaw } from '../support/raw.ts'
import { send } from '../support/requests.ts'

const MIB = 1024 * 1024
/** Wrong passwords that are sent at once. */
const WRONG_PASSWORDS = Number(process.env.WRONG_PASSWORDS ?? 3000)
/** How often memory is looked at after that, at most: on a busy machine requests are sent for a while. */
const LOOKS = 40
/** As many as the server takes on of one connection, before it has answered some. */
const PER_CONNECTION = 30
/** A hash at the highest accepted cost: a check takes so long that nearly all others wait for it. */
const SLOW_HASH = `scrypt$${2 ** 18}$8$1$${'A'.repeat(22)}$${'A'.repeat(43)}`

test('concurrent wrong passwords need little memory while they wait, and block no API key', async (t) => {
  const { url, memory } = await startProbed(t, {
    data: {},
    flags: [
      ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'token,apikey'],
      ...['--Authentication.Users', JSON.stringify([{ Username: 'anna', Password: SLOW_HASH }])],
      ...['--Authentication.ApiKey', keyOf('admin')],
    ],
  })
  const connections = await Promise.all(
    Array.from({ length: Math.ceil(WRONG_PASSWORDS / PER_CONNECTION) }, () => openRaw(t, url)),
  )
  const before = await memory()
  for (const [index, { socket }] of connections.entries()) {
    const guesses = Array.from({ length: PER_CONNECTION }, (_, n) => {
      const body = JSON.stringify({ username: 'anna', password: `${index} ${n}` })
      return `POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    })
    socket.write(guesses.join(''))
  }
  const answered = () => connections.filter(({ socket }) => socket.bytesRead > 0).length
  await until('those that need not wait', () => answered() > connections.length / 2)
  // A connection takes some memory itself. 30 passwords that wait take 260 KB.
  const bound = 4 + connections.length / 10
  // Requests that are being sent are soon done; those that wait stay until the checks before them are done.
  let grown = Number.POSITIVE_INFINITY
  for (let look = 0; look < LOOKS && grown >= bound; look++) {
    await sleep(100)
    grown = Math.min(grown, ((await memory()) - before) / MIB)
  }
  assert.ok(answered() < connections.length, 'some still wait')
  t.diagnostic(`${grown.toFixed(1)} MiB for ${PER_CONNECTION * connections.length} wrong passwords`)
  assert.ok(grown < bound, `${grown} MiB`)
  assert.equal((await send(url, 'GET', '/api', { headers: { 'X-API-KEY': keyOf('admin') } })).status, 200)
})
