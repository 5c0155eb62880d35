import { writeSnapshot } from '../data-file/adapter.ts'
import { journalExists } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { createFile, directoryOf, type Files, isOutOfSpace } from '../files/files.ts'
import { fold, type Progress, untilOf } from '../projections/journal-fold.ts'
import { Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'
import { backup } from './backup.ts'
import type { CliCommand } from './invocation.ts'
import { repair, repairText } from './repair.ts'
import { restore } from './restore.ts'
import { compact, compareStore } from './store.ts'
import { type VerifyResult, verify } from './verify.ts'

interface Terminal {
  readonly out: (text: string) => void
  /** Shows progress; undefined if the output is not a terminal. */
  readonly progress: ((text: string) => void) | undefined
}

/**
 * Runs a command; resolves with the exit code.
 * @throws {Refusal} `DiskFull` if there is no space
 */
export async function run(command: CliCommand, files: Files, terminal: Terminal): Promise<number> {
  return execute(command, files, terminal).catch((error) => {
    if (!isOutOfSpace(error) || error instanceof Refusal) throw error
    const what = (error as Error).message.replace(/\.$/, '')
    throw new Refusal('DiskFull', `The disk is full: ${what}. Repeat the command when there is room.`)
  })
}

async function execute(command: CliCommand, files: Files, terminal: Terminal): Promise<number> {
  const progress = progressBar(terminal.progress, 'segments')
  switch (command.type) {
    case 'init': {
      await init(files, command.file)
      terminal.out(`Wrote ${command.file}. Serve it with: recollect ${command.file}\n`)
      return 0
    }
    case 'verify': {
      const found = await verify(files, command, progress)
      const differences = command.store && found.ok ? await compareStore(files, command.journal, progress) : []
      const verified = {
        ...found,
        ok: found.ok && differences.length === 0,
        problems: [...found.problems, ...differences],
      }
      terminal.out(command.json ? `${JSON.stringify(verified)}\n` : verifyText(verified))
      return verified.ok ? 0 : 1
    }
    case 'repair': {
      const result = await repair(files, command, progress)
      terminal.out(repairText(result))
      return result.problems.length === 0 ? 0 : 1
    }
    case 'compact': {
      const { before, after } = await compact(files, command.journal)
      terminal.out(`The store had ${before} bytes, and has ${after}.\n`)
      return 0
    }
    case 'replay': {
      const { position, collections, items } = await replay(files, command.journal, command.to, command.out, progress)
      terminal.out(
        `Wrote ${command.out}: ${items} items in ${collections} collections, as they were at position ${position}.\n`,
      )
      return 0
    }
    case 'backup': {
      const { position, events } = await backup(files, command, progress)
      terminal.out(
        `${command.to} has the journal up to position ${position}; new events: ${events}. recollect restore --from ${command.to} makes a copy to serve.\n`,
      )
      return 0
    }
    case 'restore': {
      const { position, time, id } = await restore(files, command, progress)
      terminal.out(
        `Restored the events up to position ${position}, of ${time}, as the journal ${id}. Serve it with: recollect ${command.file}\n`,
      )
      return 0
    }
    case 'migrate': {
      const moved = await command.migrate(files, progressBar(terminal.progress, 'events'))
      terminal.out(`Migrated the journal ${moved.id} with its ${moved.head} events, and compared both.\n`)
      return 0
    }
    default:
      return command satisfies never
  }
}

/** The result of a verification for people. */
function verifyText({ ok, id, head, segments, dataFile, unfinishedBytes, problems, advice }: VerifyResult): string {
  const lines = [...problems, ...(advice === undefined ? [] : [advice])]
  if (ok) {
    const plural = segments === 1 ? '' : 's'
    lines.push(
      `The journal ${id} is intact: ${head} events in ${segments} segment${plural}; the data file is ${dataFile}.`,
    )
  }
  if (unfinishedBytes) lines.push(`Its last ${unfinishedBytes} bytes are not a complete write, or not yet.`)
  return lines.map((line) => `${line}\n`).join('')
}

const WIDTH = 40

function progressBar(show: ((text: string) => void) | undefined, what: string): Progress {
  if (!show) return () => {}
  let shown = -1
  return (done, of) => {
    const filled = of === 0 ? WIDTH : Math.round((done / of) * WIDTH)
    if (filled === shown && done !== of) return
    shown = filled
    show(`\r[${'#'.repeat(filled)}${'.'.repeat(WIDTH - filled)}] ${done} of ${of} ${what}${done === of ? '\n' : ''}`)
  }
}

const SAMPLE = {
  posts: [
    { id: 1, title: 'Hello', author: 'anna', views: 100 },
    { id: 2, title: 'What changed since', author: 'miranda', views: 200 },
  ],
  comments: [
    { id: 1, postId: 1, body: 'A first comment' },
    { id: 2, postId: 1, body: 'A second one' },
  ],
}

/**
 * Writes a sample data file.
 * @throws {Refusal} when the file or its journal exists.
 */
export async function init(files: Files, path: string): Promise<void> {
  if (await files.stat(path)) throw new Refusal('Conflict', `${path} exists already. It is not overwritten.`)
  const journal = journalOf(path)
  if (await journalExists(files, journal)) {
    throw new Refusal(
      'Conflict',
      `${journal} is the journal of ${path}: recollect ${path} writes the file again from it.`,
    )
  }
  await files.makeDirectory(directoryOf(path))
  await createFile(files, path, [Buffer.from(`${JSON.stringify(SAMPLE, null, 2)}\n`)])
}

interface ReplayResult {
  /** Position of the last event in the written state. */
  readonly position: Position
  readonly collections: number
  readonly items: number
}

/** Writes a past state as a data file. Never overwrites a file. */
export async function replay(
  files: Files,
  journal: string,
  to: string,
  out: string,
  progress: Progress,
): Promise<ReplayResult> {
  const until = untilOf(to)
  if (await files.stat(out)) throw new Refusal('Conflict', `${out} exists already; it is not overwritten.`)
  const { views, walked } = await fold(files, journal, until, progress)
  if (walked.id === undefined) throw new Refusal('NotFound', `There is no journal in ${journal}.`)
  if ('position' in until && until.position >= walked.next.position) {
    throw new Refusal('Invalid', `Position ${until.position} is beyond the journal's end, ${walked.next.position - 1}.`)
  }
  await files.makeDirectory(directoryOf(out))
  await writeSnapshot(files, out, views.snapshot())
  await files.syncDirectory(directoryOf(out))
  return { position: views.position, ...views.counts() }
}
