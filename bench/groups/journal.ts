import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, type Contestants, type Group, installed, interleaved } from '../harness/bench.ts'
import { type Series, times } from '../harness/figures.ts'
import { run } from '../harness/load.ts'
import { bodies } from '../harness/readings.ts'

const WRITERS = fileURLToPath(new URL('../harness/journal-writers.ts', import.meta.url))

export interface Written {
  /** Records a second. */
  readonly rate: number
  readonly p50Us: number
}

/** The work of fio: append as many bytes as a record has, with an fdatasync after each. */
async function fio(bench: Bench): Promise<Written> {
  const directory = await bench.fixtures.directory()
  const { length } = bodies(1)[0] as string
  const text = await run(
    'fio',
    [
      ...['--name=appends', `--directory=${directory}`, '--rw=write', `--bs=${length + 250}`, '--size=256m'],
      ...['--ioengine=psync', '--fdatasync=1', '--time_based', `--runtime=${bench.seconds}`, '--output-format=json'],
    ],
    (bench.seconds + 60) * 1000,
  )
  const { jobs } = JSON.parse(text.slice(text.indexOf('{'))) as { readonly jobs: readonly FioJob[] }
  const [job] = jobs as readonly [FioJob]
  const p50Ns = (of: FioLatency) => of.percentile?.['50.000000'] ?? Number.NaN
  return { rate: job.write.iops, p50Us: (p50Ns(job.write.clat_ns) + p50Ns(job.sync.lat_ns)) / 1000 }
}

interface FioLatency {
  readonly percentile?: Readonly<Record<string, number>>
}

interface FioJob {
  readonly write: { readonly iops: number; readonly clat_ns: FioLatency }
  readonly sync: { readonly lat_ns: FioLatency }
}

/** The number of writers in one process, each of which appends when its last write is durable. */
async function journalBy(writers: number, bench: Bench): Promise<Written> {
  const directory = join(await bench.fixtures.directory(), 'journal')
  const args = ['--import', 'tsx', WRITERS, directory, String(writers), String(bench.seconds)]
  return JSON.parse(await run(process.execPath, args, (bench.seconds + 60) * 1000)) as Written
}

export const journal: Group = {
  name: 'journal',
  about: 'the journal alone, against what fio syncs',
  async measure(bench) {
    if (!installed('/usr/bin/fio', '/usr/local/bin/fio')) throw new Error('fio is not installed')
    const p50: Record<'fio' | 'journal', number[]> = { fio: [], journal: [] }
    const noting = (name: keyof typeof p50, measure: () => Promise<Written>) => async () => {
      const { rate, p50Us } = await measure()
      p50[name].push(p50Us)
      return rate
    }
    const contestants: Contestants = {
      fio: noting('fio', () => fio(bench)),
      'one writer': noting('journal', () => journalBy(1, bench)),
      '64 writers': async () => (await journalBy(64, bench)).rate,
      '1,024 writers': async () => (await journalBy(1024, bench)).rate,
    }
    const measured = await interleaved(bench, 'records/s', contestants)
    const rate = { ...(measured.fio as Series), name: "fio's fdatasync rate" }
    const series = (name: keyof typeof p50, shown: string): Series => ({ name: shown, unit: 'µs', values: p50[name] })
    const latency = series('fio', "fio's write and fdatasync")
    const rowOf = (name: string, bound: number) => ({
      work: `the journal alone, ${name}`,
      ours: measured[name] as Series,
      better: 'more' as const,
      goals: [times(rate, bound)],
      others: [rate],
    })
    return [
      rowOf('64 writers', 15),
      rowOf('1,024 writers', 40),
      {
        work: 'the journal alone, one writer, p50',
        ours: series('journal', 'one writer'),
        better: 'less',
        goals: [times(latency, 2.2, 'at most')],
        others: [latency],
      },
    ]
  },
}
