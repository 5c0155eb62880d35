import assert from 'node:assert/strict'
import { test } from 'node:test'
import { includes, neededRole, ROLES } from '../../src/access/roles.ts'

const READ = ['GET', 'HEAD', 'OPTIONS']
const WRITE = ['POST', 'PUT', 'PATCH', 'DELETE']
const UNHEARD = ['PROPFIND', 'TRACE', 'PURGE', 'get', '']

test('each role includes the permissions of the one before it and none of those after it', () => {
  const table = ROLES.map((role) => ROLES.map((needed) => includes(role, needed)))
  assert.deepEqual(table, [
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ])
})

test('readers may read items and writers may write them; an unknown method counts as a write', () => {
  for (const path of ['/api', '/api/', '/api/sensors', '/api/sensors/7', '/api/sensors/7/data/x', '/api/events']) {
    for (const method of READ) assert.equal(neededRole(method, path), 'reader', `${method} ${path}`)
    for (const method of [...WRITE, ...UNHEARD]) {
      // To write /api replaces everything.
      const needed = /^\/api\/?$/.test(path) ? 'admin' : 'writer'
      assert.equal(neededRole(method, path), needed, `${method} ${path}`)
    }
  }
})

test('journal and metrics need the role reader, whatever the method', () => {
  for (const path of ['/events', '/events/', '/events/7', '/metrics', '/logout']) {
    for (const method of [...READ, ...WRITE, ...UNHEARD]) assert.equal(neededRole(method, path), 'reader', path)
  }
})

test('all paths below /admin need the role admin, existing or not', () => {
  for (const path of ['/admin', '/admin/', '/admin/reload', '/admin/restore', '/admin/nothing/yet']) {
    for (const method of [...READ, ...WRITE, ...UNHEARD]) assert.equal(neededRole(method, path), 'admin', path)
  }
})

test('paths that show no items are public', () => {
  for (const path of [
    '/',
    '/index.html',
    '/swagger/',
    '/openapi.json',
    '/health',
    '/token',
    '/favicon.ico',
    '/apis',
    '/api.html',
  ]) {
    for (const method of [...READ, ...WRITE]) assert.equal(neededRole(method, path), undefined, `${method} ${path}`)
  }
})

test('roles apply to a path in any letter case', () => {
  for (const path of ['/API/sensors', '/Api', '/Events', '/ADMIN/reload']) {
    assert.notEqual(neededRole('GET', path), undefined, path)
  }
})
