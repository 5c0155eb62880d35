#!/usr/bin/env node
import { createHook } from 'node:async_hooks'
import { closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { hashPassword } from './access/passwords.ts'
import { helpText } from './cli/commands.ts'
import { type CliCommand, type Invocation, parseInvocation } from './cli/invocation.ts'
import { isTextFormat, openLog, standardError } from './cli/log.ts'
import { CLUSTER } from './cluster/cluster.ts'
import { messagesOf } from './collections/file-items.ts'
import { nodeFiles } from './files/node-files.ts'
import { Corruption, JournalMismatch, Locked, Refusal } from './runtime/errors.ts'
import { MemoryBudget } from './runtime/memory.ts'
import {
  packaged,
  packageVersion,
  platformDependencies,
  type ServiceDependencies,
  staticFilesOf,
} from './server/platform.ts'
import type { Service } from './server/service.ts'
import { BadSettings, type Settings } from './settings/settings.ts'

/** Objects that Node creates for `process.nextTick`. Never read. */
const keptTicks: object[] = []

/**
 * Keeps one such object alive. When a garbage collection finds none, V8 drops their hidden class, and creates later ones
 * five times as slowly: a server that was idle for a while would answer a third fewer requests until its end.
 */
function keepTick(): void {
  const hook = createHook({ init: (_id, type, _trigger, tick) => void (type === 'TickObject' && keptTicks.push(tick)) })
  hook.enable()
  process.nextTick(() => {})
  hook.disable()
}

/** Parses the command line, and reads the environment and the files that it names. */
function invocation(): Invocation {
  return parseInvocation({
    argv: process.argv.slice(2),
    env: process.env,
    absolute: (path) => resolve(path),
    packagedSettings: packaged('appsettings.json'),
    remoteJournal: CLUSTER,
    readText: (path) => (existsSync(path) && statSync(path).isFile() ? readFileSync(path, 'utf8') : undefined),
  })
}

async function main(): Promise<void> {
  const invoked = invocation()
  switch (invoked.type) {
    case 'help':
      return void process.stdout.write(helpText(invoked.command, CLUSTER))
    case 'version':
      return void process.stdout.write(`${packageVersion()}\n`)
    case 'hash-password':
      return printHash()
    case 'command':
      return runCommand(invoked.command)
    case 'demo':
      return demo(invoked)
    case 'serve':
      return void (await serve(invoked, () => (invocation() as Invoked<'serve'>).settings))
    default:
      return invoked satisfies never
  }
}

async function runCommand(command: CliCommand): Promise<void> {
  const { run } = await import('./cli/run.ts')
  process.exitCode = await run(command, nodeFiles, {
    out: (text) => process.stdout.write(text),
    progress: process.stderr.isTTY ? (text) => process.stderr.write(text) : undefined,
  })
}

type Invoked<Type extends Invocation['type']> = Extract<Invocation, { type: Type }>

/** Makes a home, serves it, and writes readings for an hour. The directory stays. */
async function demo({ settingsIn }: Invoked<'demo'>): Promise<void> {
  const { makeHome, continueReadings } = await import('./cli/demo.ts')
  const directory = await mkdtemp(join(tmpdir(), 'recollect-demo-'))
  const now = new Date()
  const present = { ms: now.getTime(), zoneMinutes: -now.getTimezoneOffset() }
  const readSettings = (): Settings => settingsIn(directory)
  const settings = readSettings()
  await makeHome(nodeFiles, settings, present)
  const { service, dependencies } = await serve({ settings, replay: undefined }, readSettings)
  const file = basename(settings.file)
  process.stdout.write(
    `  Home     ${directory}\n  It stays there. In that directory, recollect ${file} serves it again.\n`,
  )
  const ended = (): void => void process.stdout.write('The hour of readings is over. The server continues.\n')
  continueReadings({ ...dependencies, present, write: service.write, ended })
}

/** Serves until a signal. Resolves when the server listens. */
async function serve(
  { settings, replay }: Pick<Invoked<'serve'>, 'settings' | 'replay'>,
  readSettings: () => Settings,
): Promise<{ readonly service: Service; readonly dependencies: ServiceDependencies }> {
  const wwwroot = staticFilesOf(settings) ?? resolve(settings.staticDefault)
  keepTick()

  const isTerminal = process.stdout.isTTY && process.stderr.isTTY
  process.stdout.on('error', () => {})
  const hasColours = isTerminal && !process.env.NO_COLOR
  const log = openLog(settings.log, { write: standardError(), isTerminal, hasColours })
  const { file, journal, values } = settings
  log.info(
    { version: packageVersion(), node: process.version, file, journal, settings: values.nonDefaults() },
    'Recollect starts',
  )
  const exitAfter = (message: string) => (error: unknown) => {
    log.fatal({ err: error }, message)
    process.exit(1)
  }
  const die = exitAfter('an unexpected error; ending')
  const untrusted = exitAfter('the journal can no longer be trusted; ending')
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  const dependencies = platformDependencies({
    log,
    remoteJournal: CLUSTER,
    readSettings,
    wwwroot,
    memory: new MemoryBudget(settings.limits.memoryBytes),
    ownsProcess: true,
    middleware: [],
    // A start that takes long may still be refused when the server listens already.
    failed: (error) => {
      if (!(error instanceof Refusal)) return untrusted(error)
      log.fatal({ reason: error.message }, 'the start is refused; ending')
      fail(error)
    },
  })
  const { start } = await import('./server/service.ts')
  const starting = start(settings, dependencies, replay)
  const hadTerminal = hasTerminal()
  // A refusal was logged.
  const reloadSettings = (service: Service): Promise<unknown> =>
    service.reloadSettings().catch((error) => error instanceof Refusal || die(error))
  process.on('SIGHUP', () => {
    if (!hadTerminal || hasTerminal()) {
      starting.then(reloadSettings, () => {})
      return
    }
    // The terminal was closed, which ends the process. Node would crash in process.exit().
    process.removeAllListeners('SIGHUP')
    process.kill(process.pid, 'SIGHUP')
  })
  const service = await starting
  let ending = false
  const end = (): void => {
    if (ending) process.exit(1)
    ending = true
    service.close().then(() => process.exit(0), exitAfter('the end was not a clean one'))
  }
  process.on('SIGTERM', end)
  process.on('SIGINT', end)
  process.stdout.write(`Recollect listens on ${service.urls.join(' and ')}\n`)
  if (isTextFormat(settings.log.format, isTerminal)) process.stdout.write(addressesAt(service.urls[0] ?? ''))
  if (settings.snapshots !== undefined) void offerSnapshots(service, settings.snapshots)
  return { service, dependencies }
}

/** Writes a snapshot whenever `s` and Enter are typed, as json-server 0.17 does. */
async function offerSnapshots(service: Service, directory: string): Promise<void> {
  process.stdout.write(`  Type s and Enter to write a snapshot to ${directory}\n`)
  // There may be no terminal to read from.
  process.stdin.on('error', () => {})
  for await (const line of createInterface(process.stdin)) {
    if (line.trim().toLowerCase() !== 's') continue
    const path = join(directory, `db-${Date.now()}.json`)
    await service.writeSnapshot(path).then(
      () => process.stdout.write(`Saved snapshot to ${path}\n`),
      (error: Error) => process.stderr.write(`recollect: ${error.message}\n`),
    )
  }
}

/** Whether the process has a controlling terminal. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

/** The addresses for users. */
function addressesAt(url: string): string {
  return `  Pages    ${url}/\n  API      ${url}/api\n  Try it   ${url}/swagger/\n`
}

/** Hashes the password in the first line of standard input; other users can see arguments. */
async function printHash(): Promise<void> {
  if (process.stdin.isTTY) process.stderr.write('Password: ')
  const [password = ''] = (await text(process.stdin)).split(/\r?\n/)
  if (password === '') throw new BadSettings(['The password is empty.'])
  process.stdout.write(`${await hashPassword(password)}\n`)
}

/** The lines of an error: its message, or the mistakes of a data file. */
function linesOf(error: Error): readonly string[] {
  return error instanceof Refusal && error.faults.length > 1 ? messagesOf(error.faults) : [error.message]
}

/** Prints why the program cannot run, and exits. */
function fail(error: unknown): never {
  if (error instanceof BadSettings) {
    for (const mistake of error.mistakes) process.stderr.write(`recollect: ${mistake}\n`)
    process.exit(2)
  }
  const isExpected =
    [Refusal, Corruption, JournalMismatch, Locked].some((expected) => error instanceof expected) ||
    (error as NodeJS.ErrnoException).code !== undefined
  for (const line of isExpected ? linesOf(error as Error) : [(error as Error).stack]) {
    process.stderr.write(`recollect: ${line}\n`)
  }
  process.exit(error instanceof Refusal && error.code === 'Invalid' ? 2 : 1)
}

main().catch(fail)
