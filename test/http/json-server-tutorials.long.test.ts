import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fetch } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort, startProcess } from '../support/process.ts'
import { ofOneServer, runToEnd, type SpawnedServer, spawnServer, storeBuilt } from '../support/server.ts'

/*
 * What the tutorials of json-server have their readers type, in their order. `$` is a command, where json-server stands
 * for `recollect --json-server`; `!` is what a command that is refused prints. A request is followed by its response:
 * "*" in it stands for any value.
 */

const TUTORIAL_0: Readonly<Record<string, string>> = {
  'db.json': `{
  "posts": [
    { "id": 1, "title": "json-server", "author": "typicode" }
  ],
  "comments": [
    { "id": 1, "body": "some comment", "postId": 1 }
  ],
  "profile": { "name": "typicode" }
}
`,
  'routes.json': `{
  "/api/*": "/$1",
  "/:resource/:id/show": "/:resource/:id",
  "/articles?id=:id": "/posts/:id"
}
`,
  'index.js': 'module.exports = () => ({ users: [] })',
}

const STEPS_0 = `
$ json-server --watch db.json
GET /posts/1
200 { "id": 1, "title": "json-server", "author": "typicode" }
GET /posts
200 [{ "id": 1, "title": "json-server", "author": "typicode" }]
POST /posts { "title": "second", "author": "ada" }
201 { "id": 2, "title": "second", "author": "ada" }
PUT /posts/2 { "title": "replaced" }
200 { "id": 2, "title": "replaced" }
PATCH /posts/2 { "author": "typicode" }
200 { "id": 2, "title": "replaced", "author": "typicode" }
GET /profile
200 { "name": "typicode" }
PUT /profile { "name": "new" }
200 { "name": "new" }
PATCH /profile { "city": "Oulu" }
200 { "name": "new", "city": "Oulu" }
GET /posts?title=json-server&author=typicode
200 [{ "id": 1, "title": "json-server", "author": "typicode" }]
GET /posts?id=1&id=2
200 [{ "id": 1, "title": "*", "author": "*" }, { "id": 2, "title": "*", "author": "*" }]
GET /posts?_page=1&_limit=1
200 [{ "id": 1, "title": "*", "author": "*" }]
GET /posts?_sort=title&_order=desc
200 [{ "id": 2, "title": "*", "author": "*" }, { "id": 1, "title": "*", "author": "*" }]
GET /posts?_start=1&_end=2
200 [{ "id": 2, "title": "*", "author": "*" }]
GET /posts?id_gte=2&id_lte=20
200 [{ "id": 2, "title": "*", "author": "*" }]
GET /posts?id_ne=1
200 [{ "id": 2, "title": "*", "author": "*" }]
GET /posts?title_like=server
200 [{ "id": 1, "title": "*", "author": "*" }]
GET /posts?q=replaced
200 [{ "id": 2, "title": "*", "author": "*" }]
GET /posts/1?_embed=comments
200 { "id": 1, "title": "*", "author": "*", "comments": [{ "id": 1, "body": "*", "postId": 1 }] }
GET /comments?_expand=post
200 [{ "id": 1, "body": "*", "postId": 1, "post": { "id": 1, "title": "*", "author": "*" } }]
POST /posts/1/comments { "body": "another" }
201 { "id": 2, "body": "another", "postId": 1 }
GET /posts/1/comments
200 [{ "id": 1, "body": "some comment", "postId": 1 }, { "id": 2, "body": "another", "postId": 1 }]
DELETE /posts/2
200 { "id": 2, "title": "replaced", "author": "typicode" }
GET /posts/2
404
$ mkdir public
$ echo 'hello world' > public/index.html
$ json-server db.json
GET /
200 hello world
GET /posts/1
200 { "id": 1, "title": "json-server", "author": "typicode" }
$ mkdir some-other-dir
$ echo 'other' > some-other-dir/index.html
$ json-server db.json --static ./some-other-dir
GET /
200 other
$ json-server --watch db.json --port PORT
GET /profile
200 { "name": "new", "city": "Oulu" }
$ json-server http://jsonplaceholder.typicode.com/db
! must be a path, not a URL
$ json-server index.js
! index.js
$ json-server db.json --routes routes.json
GET /api/posts
200 [{ "id": 1, "title": "json-server", "author": "typicode" }]
GET /api/posts/1
200 { "id": 1, "title": "json-server", "author": "typicode" }
GET /posts/1/show
200 { "id": 1, "title": "json-server", "author": "typicode" }
GET /articles?id=1
200 { "id": 1, "title": "json-server", "author": "typicode" }
$ json-server db.json --middlewares ./hello.js
! --middlewares is a flag of json-server.*docs/migrate-from-json-server.md
`

const TUTORIAL_1: Readonly<Record<string, string>> = {
  'db.json': `{
  "$schema": "./node_modules/json-server/schema.json",
  "posts": [
    { "id": "1", "title": "a title", "views": 100 },
    { "id": "2", "title": "another title", "views": 200 }
  ],
  "comments": [
    { "id": "1", "text": "a comment about post 1", "postId": "1" },
    { "id": "2", "text": "another comment about post 1", "postId": "1" }
  ],
  "profile": {
    "name": "typicode"
  }
}
`,
  'other.json5': `{
  posts: [
    { id: "1", title: "a title", views: 100 },
    { id: "2", title: "another title", views: 200 },
  ],
  profile: {
    name: "typicode",
  },
}
`,
}

const STEPS_1 = `
$ json-server db.json
GET /posts/1
200 { "id": "1", "title": "a title", "views": 100 }
GET /posts?views:gt=100
200 [{ "id": "2", "title": "another title", "views": 200 }]
GET /posts?title:eq=Hello
200 []
GET /posts?id:in=1,2,3
200 [{ "id": "1", "title": "*", "views": 100 }, { "id": "2", "title": "*", "views": 200 }]
GET /posts?title:contains=ANOTHER
200 [{ "id": "2", "title": "another title", "views": 200 }]
GET /posts?title:startsWith=A
200 [{ "id": "1", "title": "*", "views": 100 }, { "id": "2", "title": "*", "views": 200 }]
GET /posts?title:endsWith=title
200 [{ "id": "1", "title": "*", "views": 100 }, { "id": "2", "title": "*", "views": 200 }]
GET /posts?_sort=-views
200 [{ "id": "2", "title": "*", "views": 200 }, { "id": "1", "title": "*", "views": 100 }]
GET /posts?_page=1&_per_page=1
200 { "first": 1, "prev": null, "next": 2, "last": 2, "pages": 2, "items": 2, "data": [{ "id": "1", "title": "a title", "views": 100 }] }
GET /posts?_embed=comments&id=2
200 [{ "id": "2", "title": "*", "views": 200, "comments": [] }]
GET /comments?_embed=post&id=1
200 [{ "id": "1", "text": "*", "postId": "1", "post": { "id": "1", "title": "*", "views": 100 } }]
GET /posts?_where={"or":[{"views":{"gt":100}},{"title":{"lt":"a"}}]}
200 [{ "id": "2", "title": "another title", "views": 200 }]
POST /posts { "title": "new" }
201 { "id": "*", "title": "new" }
PUT /posts/2 { "title": "replaced" }
200 { "id": "2", "title": "replaced" }
PATCH /posts/2 { "views": 1 }
200 { "id": "2", "title": "replaced", "views": 1 }
PUT /profile { "name": "new" }
200 { "name": "new" }
PATCH /profile { "city": "Oulu" }
200 { "name": "new", "city": "Oulu" }
DELETE /posts/1?_dependent=comments
200 { "id": "1", "title": "a title", "views": 100 }
GET /comments
200 []
$ mkdir static
$ echo 'hello' > static/hello.txt
$ json-server db.json -s ./static
GET /hello.txt
200 hello
$ json-server other.json5
GET /posts/1
200 { "id": "1", "title": "a title", "views": 100 }
$ json-server --help
`

/** One who types the steps into an empty folder. */
class Reader {
  readonly #t: TestContext
  readonly #directory: string
  #server: SpawnedServer | undefined
  #url = ''

  constructor(t: TestContext, directory: string) {
    this.#t = t
    this.#directory = directory
  }

  async type(steps: string): Promise<void> {
    const lines = steps.trim().split('\n')
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at] as string
      const next = lines[at + 1] ?? ''
      if (line.startsWith('$ json-server ')) await this.#serve(line.slice('$ json-server '.length), next)
      else if (line.startsWith('$ ')) await this.#run(line.slice(2))
      else if (/^[A-Z]/.test(line)) await this.#ask(line, next)
    }
  }

  async #serve(args: string, next: string): Promise<void> {
    this.#server?.process.kill('SIGINT')
    await this.#server?.ended()
    this.#server = undefined
    const port = String(await freePort())
    const words = args.replace('PORT', port).split(' ')
    if (!/^[A-Z]/.test(next)) {
      const { code, stdout, stderr } = await runToEnd(this.#t, this.#directory, ['--json-server', ...words])
      const refusal = next.startsWith('! ') ? next.slice(2) : undefined
      assert.equal(code, refusal === undefined ? 0 : 2, args + stdout + stderr)
      if (refusal !== undefined) assert.match(stderr, new RegExp(refusal), args)
      return
    }
    const flags = ['--json-server', ...words, ...(args.includes('--port') ? [] : ['--port', port])]
    this.#server = spawnServer(this.#t, this.#directory, { isBare: true, flags })
    const url = await this.#server.listening()
    assert.equal(url, `http://localhost:${port}`, args + this.#server.stderr())
    this.#url = url
    await storeBuilt(url)
  }

  async #run(command: string): Promise<void> {
    const { code } = await startProcess(this.#t, ['sh', '-c', command], { cwd: this.#directory }).ended()
    assert.equal(code, 0, command)
  }

  async #ask(line: string, wanted: string): Promise<void> {
    const [, method = '', path = '', body] = /^(\S+) (\S+)(?: (.*))?$/.exec(line) ?? []
    const json = body === undefined ? {} : { body, headers: { 'Content-Type': 'application/json' } }
    const answer = await fetch(this.#url + path, { method, ...json })
    const text = (await answer.text()).trim()
    const [, status, expected] = /^(\d+)(?: (.*))?$/.exec(wanted) ?? []
    assert.equal(String(answer.status), status, `${line}\n${text}`)
    if (expected === undefined) return
    const isJson = /^[{[]/.test(expected)
    if (isJson) assert.deepEqual(asFar(JSON.parse(text), JSON.parse(expected)), JSON.parse(expected), line)
    else assert.equal(text, expected, line)
  }
}

/** A value, with "*" where any is expected. */
function asFar(found: unknown, expected: unknown): unknown {
  if (expected === '*') return '*'
  if (Array.isArray(found) && Array.isArray(expected)) return found.map((one, index) => asFar(one, expected[index]))
  if (typeof found !== 'object' || found === null || typeof expected !== 'object') return found
  const members = Object.entries(found).map(([name, value]) => [
    name,
    asFar(value, (expected as Readonly<Record<string, unknown>> | null)?.[name]),
  ])
  return Object.fromEntries(members)
}

const skip = ofOneServer('a tutorial has one server')

test('the tutorials of json-server work as they are typed', { skip }, async (t) => {
  for (const [version, files, steps] of [
    ['0.17', TUTORIAL_0, STEPS_0],
    ['1.0', TUTORIAL_1, STEPS_1],
  ] as const) {
    await t.test(`the tutorial of ${version} works`, async (inner) => {
      const directory = await temporaryDirectory(inner)
      for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
      await new Reader(inner, directory).type(steps)
    })
  }
})
