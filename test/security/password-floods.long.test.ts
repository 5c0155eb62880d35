import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keyOf } from '../support/authentication.ts'
import { until } from '../support/deadline.ts'
import { startProbed } from '../support/probe.ts'
import { openRaw, type RawConnection } from '../support/raw.ts'
import { send } from '../support/requests.ts'

const MIB = 1024 * 1024
/** Wrong passwords that are sent at once. */
const WRONG_PASSWORDS = Number(process.env.WRONG_PASSWORDS ?? 3000)
/** Sent together over one connection, which are checked one after the other. */
const PER_CONNECTION = 30
/** A hash at the highest accepted cost: a check takes so long that nearly all others wait for it. */
const SLOW_HASH = `scrypt$${2 ** 18}$8$1$${'A'.repeat(22)}$${'A'.repeat(43)}`

function guess(password: string): string {
  const body = JSON.stringify({ username: 'anna', password })
  return `POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

test('concurrent wrong passwords need little memory while they wait, and block no API key', async (t) => {
  const { url, memory } = await startProbed(t, {
    data: {},
    flags: [
      ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'token,apikey'],
      ...['--Authentication.Users', JSON.stringify([{ Username: 'anna', Password: SLOW_HASH }])],
      // All those that wait would be rejected with the last failure that is allowed.
      ...['--Authentication.ApiKey', keyOf('admin'), '--Limits.FailuresPerMinute', '1000000'],
    ],
  })
  const connections = await Promise.all(
    Array.from({ length: Math.ceil(WRONG_PASSWORDS / PER_CONNECTION) }, () => openRaw(t, url)),
  )
  const before = await memory()
  for (const [index, { socket }] of connections.entries()) {
    socket.write(Array.from({ length: PER_CONNECTION }, (_, n) => guess(`${index} ${n}`)).join(''))
  }
  const more: RawConnection[] = []
  await until('as many wait as may', async () => {
    const connection = await openRaw(t, url)
    connection.socket.write(guess(`another ${more.push(connection)}`))
    return more.some(({ rest }) => rest.startsWith('HTTP/1.1 429'))
  })
  // A connection takes some memory itself. If all its 30 passwords were taken on at once, they would take 260 KB.
  const bound = 4 + connections.length / 10
  // Requests that are being sent are soon done; those that wait stay until the checks before them are done.
  const grown = await until(`they need less than ${bound} MiB`, async () => {
    const mebibytes = ((await memory()) - before) / MIB
    return mebibytes < bound && mebibytes
  })
  const waiting = connections.filter(({ socket }) => socket.bytesRead === 0).length
  assert.ok(waiting > 0, 'some still wait')
  t.diagnostic(`${grown.toFixed(1)} MiB for ${PER_CONNECTION * connections.length} wrong passwords`)
  assert.equal((await send(url, 'GET', '/api', { headers: { 'X-API-KEY': keyOf('admin') } })).status, 200)
})
