import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetch, until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { blocksOf, lasting, sectionOf, transcript } from '../support/documents.ts'
import { type RunningProcess, startProcess } from '../support/process.ts'
import { json, storeBuilt } from '../support/server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const { version } = JSON.parse(read('package.json')) as { version: string }
const DOCUMENTED = 'localhost:57602'

export const RUNBOOK = read('docs/operations.md')
export const READINGS = 100

/** Commands of the machine that the documented account and its packages would need. */
const SHIMS = {
  sudo: '[ "$1" = -u ] && shift 2; [ "$1" = install ] && { shift; exec "$0-install" "$@"; }; exec "$@"',
  'sudo-install': 'exec install $(echo "$*" | sed "s/-[og] recollect//g")',
  recollect: `exec ${process.execPath} ${join(root, 'dist/main.js')} "$@"`,
}

/** One who follows docs/operations.md, on a machine whose /var, /etc and /srv are in a directory of the test's. */
export class Operator {
  readonly machine: string
  /** Environment variables of the server. */
  env: NodeJS.ProcessEnv = {}
  readonly #t: Scope
  #server: RunningProcess | undefined
  #address = DOCUMENTED
  #log = ''

  constructor(t: Scope, machine: string) {
    this.#t = t
    this.machine = machine
    for (const path of ['bin', 'var/lib/recollect', 'var/backups/recollect', 'etc/systemd/system', 'srv']) {
      mkdirSync(join(machine, path), { recursive: true })
    }
    for (const [name, text] of Object.entries(SHIMS)) {
      writeFileSync(this.path(`/bin/${name}`), `#!/bin/sh\n${text}\n`)
      chmodSync(this.path(`/bin/${name}`), 0o755)
    }
  }

  /** One with a server that has readings in three segments, and their backup. */
  static async withReadings(t: Scope, machine?: string, settings: object = {}): Promise<Operator> {
    const operator = new Operator(t, machine ?? (await temporaryDirectory(t)))
    operator.configure(settings)
    await operator.start()
    for (let n = 1; n <= READINGS; n++) await operator.write({ mac: `A${n % 4}`, n, text: 'x'.repeat(200) })
    await operator.run('recollect backup --file /var/lib/recollect/db.json --to /var/backups/recollect/db')
    return operator
  }

  configure(settings: object): void {
    const journal = { SegmentBytes: 20_000, Compress: 'off', ...settings }
    writeFileSync(this.path('/etc/recollect.json'), JSON.stringify({ Journal: journal }))
  }

  /** A path of the machine. */
  path(path: string): string {
    return join(this.machine, path)
  }

  get server(): RunningProcess {
    return this.#server ?? assert.fail('the server does not run')
  }

  fetch(path: string, init?: RequestInit): Promise<Response> {
    return fetch(`http://${this.#address}${path}`, init)
  }

  async write(reading: object): Promise<void> {
    const { status } = await this.fetch('/api/readings', json('POST', reading, { 'X-Request-Id': 'reading' }))
    assert.equal(status, 201)
  }

  /** Starts the server as the unit does, on a free port. Resolves with false when the start is refused. */
  async start(): Promise<boolean> {
    const [, line = ''] =
      /^ExecStart=\/usr\/local\/bin\/(.*)$/m.exec(read('examples/operations/recollect.service')) ?? []
    const command = `exec ${line} --urls http://127.0.0.1:0`
    const server = this.#shell(command, { ...this.env, PATH: this.#paths }, '/var/lib/recollect')
    const [, address] = (await server.printed(/listens on http:\/\/(\S+)\n/)) ?? []
    this.#server = server
    if (address === undefined) return false
    this.#address = address
    await storeBuilt(`http://${address}`)
    return true
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    server.process.kill(signal)
    const { code } = await server.ended()
    this.#log += server.stderr()
    if (signal === 'SIGTERM') assert.ok(code === 0 || server.process.exitCode === 1, server.output())
  }

  /** Waits until the log of the server has a text. */
  async logged(text: string): Promise<void> {
    await until(text, () => this.server.stderr().includes(text))
  }

  /** A command's output, with the documented paths and port. */
  async run(command: string): Promise<string> {
    writeFileSync(this.path('/log'), this.#log + (this.#server?.stderr() ?? ''))
    const shell = this.#shell(command, { PATH: this.#paths })
    const { code } = await shell.ended()
    assert.equal(code, 0, `$ ${command}\n${shell.output()}`)
    return shell.stdout().replaceAll(this.machine, '').replaceAll(this.#address, DOCUMENTED)
  }

  /** Does what a section says, from its first block to its last. `between` runs before each block but the first. */
  async follow(title: string, between: () => Promise<void> = async () => {}): Promise<void> {
    const blocks = blocksOf(sectionOf(RUNBOOK, title))
    assert.ok(blocks.length > 0, `${title} has commands`)
    for (const [index, { language, file, text }] of blocks.entries()) {
      if (index > 0) await between()
      if (file) writeFileSync(this.path(file), text)
      else if (language === 'sh') for (const command of text.trim().split(/(?<!\\)\n/)) await this.#do(command)
      else {
        assert.equal(language, 'console', `a block can be run, or is a file, and not ${language}`)
        for (const { command, output } of transcript(text)) {
          assert.equal(timeless(await this.#do(command)), timeless(output), `$ ${command}`)
        }
      }
    }
  }

  /** The server is well, and has all readings. */
  async check(readings = READINGS): Promise<void> {
    const health = await this.fetch('/health')
    const text = await health.text()
    assert.match(text, /^\{"status":"ok"/)
    const items = (await (await this.fetch('/api/readings?all=true&fields=n')).json()) as unknown[]
    assert.equal(items.length, readings)
  }

  get #paths(): string {
    return `${this.path('/bin')}:${process.env.PATH}`
  }

  async #do(command: string): Promise<string> {
    const [, verb, rest] = /^sudo systemctl (\S+)(.*)$/.exec(command) ?? []
    if (/^sudo (useradd|npm install --global) /.test(command) || /^npm (ci|pack)$/.test(command)) {
      if (command.includes('.tgz')) assert.ok(command.endsWith(` recollect-${version}.tgz`), command)
    } else if (verb === undefined) return this.run(command)
    else if (rest?.endsWith('recollect') && /^(start|enable|restart)$/.test(verb)) {
      await this.stop()
      assert.ok(await this.start(), this.server.output())
    } else if (verb === 'stop') await this.stop()
    else assert.match(command, /daemon-reload$|enable --now recollect-backup\.timer$/)
    return ''
  }

  #shell(command: string, env: NodeJS.ProcessEnv, directory?: string): RunningProcess {
    const onMachine = command
      .replaceAll(DOCUMENTED, this.#address)
      .replaceAll('vault.example:', '')
      // The disk of the test is small.
      .replace('fallocate -l 1G', 'fallocate -l 2M')
      .replaceAll('journalctl -u recollect -o cat', 'cat /log')
      .replace(/(?<![\w.])\/(?=(?:var|etc|srv|log)\b)/g, `${this.machine}/`)
    const cwd = directory === undefined ? root : this.path(directory)
    return startProcess(this.#t, ['sh', '-c', onMachine], { cwd, env })
  }
}

/** Without the times of events, too. */
function timeless(text: string): string {
  return lasting(text).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<now>')
}
