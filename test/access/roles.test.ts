import assert from 'node:assert/strict'
import { test } from 'node:test'
import { includes, neededRole, ROLES } from '../../src/access/roles.ts'

const READ = ['GET', 'HEAD', 'OPTIONS']
const WRITE = ['POST', 'PUT', 'PATCH', 'DELETE']
const UNHEARD = ['PROPFIND', 'TRACE', 'PURGE', 'get', '']

test('each role may do what the one before it may, and no role what a later one may', () => {
  const table = ROLES.map((role) => ROLES.map((needed) => includes(role, needed)))
  assert.deepEqual(table, [
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ])
})

test('items: readers read, writers write; a method that nobody knows counts as writing', () => {
  for (const path of ['/api', '/api/', '/api/sensors', '/api/sensors/7', '/api/sensors/7/data/x', '/api/events']) {
    for (const method of READ) assert.equal(neededRole(method, path), 'reader', `${method} ${path}`)
    for (const method of [...WRITE, ...UNHEARD]) {
      // To write /api replaces everything.
      const needed = /^\/api\/?$/.test(path) ? 'admin' : 'writer'
      assert.equal(neededRole(method, path), needed, `${method} ${path}`)
    }
  }
})

test('the journal and the metrics are for readers, whatever the method', () => {
  for (const path of ['/events', '/events/', '/events/7', '/metrics', '/logout']) {
    for (const method of [...READ, ...WRITE, ...UNHEARD]) assert.equal(neededRole(method, path), 'reader', path)
  }
})

test('all of /admin is for admins, also what is not there', () => {
  for (const path of ['/admin', '/admin/', '/admin/reload', '/admin/restore', '/admin/nothing/yet']) {
    for (const method of [...READ, ...WRITE, ...UNHEARD]) assert.equal(neededRole(method, path), 'admin', path)
  }
})

test('what tells nothing of the items is public', () => {
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

test('a path in other letters is no way around', () => {
  for (const path of ['/API/sensors', '/Api', '/Events', '/ADMIN/reload']) {
    assert.notEqual(neededRole('GET', path), undefined, path)
  }
})
