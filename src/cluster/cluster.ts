import type { RemoteJournal } from '../engine/remote-journal.ts'
import type { ParsedFlags } from '../settings/flags.ts'
import { BadSettings } from '../settings/settings.ts'
import { CLUSTER_KEYS, type ClusterSettings, completed, DEFAULT_STREAM, type Move, readCluster } from './settings.ts'

/** The journal of a cluster, to be plugged into a server. A server without one loads nothing of NATS. */
export const CLUSTER: RemoteJournal = {
  keys: CLUSTER_KEYS,
  read: readCluster,
  async open(settings, dependencies) {
    const { ClusterEngine } = await import('./cluster-engine.ts')
    return ClusterEngine.open(settings, settings.remote as ClusterSettings, dependencies)
  },
  migrate: {
    syntax: {
      text: 'Moves a journal from a directory into a stream of NATS JetStream, or back.',
      flags: {
        from: { value: '<directory|nats://…>', text: 'where it is' },
        to: { value: '<nats://…|directory>', text: 'where it goes' },
        stream: { value: '<name>', text: 'the name of the stream', default: DEFAULT_STREAM },
        replicas: {
          value: '<number>',
          text: 'copies of the stream; 0: three where there are three servers, else one',
          default: '0',
        },
        credentials: { value: '<path>', text: 'a NATS credentials file' },
      },
      needs: ['from', 'to'],
    },
    read(flags, absolute, mistakes) {
      const move = parseMove(flags, absolute, mistakes)
      return async (files, progress) => {
        const { migrate } = await import('./migration.ts')
        return migrate(files, move, progress)
      }
    },
  },
}

/** @throws {BadSettings} with all mistakes in the flags. */
function parseMove(flags: ParsedFlags, absolute: (path: string) => string, mistakes: string[]): Move {
  const [from, to] = [flags.text('from') ?? '', flags.text('to') ?? '']
  const isStream = (place: string): boolean => /^(nats|tls):\/\//.test(place)
  if (mistakes.length === 0 && isStream(from) === isStream(to)) {
    mistakes.push('recollect migrate moves from a directory to nats://…, or back.')
  }
  const replicas = flags.text('replicas') ?? '0'
  if (!/^\d$/.test(replicas)) mistakes.push('The flag --replicas must be a number, such as 3.')
  throwAny(mistakes)
  const [urls, directory] = isStream(from) ? [from, to] : [to, from]
  const credentials = flags.text('credentials')
  const given = {
    servers: urls.split(',').map((server) => server.trim()),
    stream: flags.text('stream') ?? DEFAULT_STREAM,
    replicas: Number(replicas),
    credentials: credentials === undefined ? undefined : absolute(credentials),
  }
  const settings = completed(given, mistakes)
  throwAny(mistakes)
  return { settings, directory: absolute(directory), isToStream: isStream(to) }
}

function throwAny(mistakes: readonly string[]): void {
  if (mistakes.length > 0) throw new BadSettings(mistakes)
}
