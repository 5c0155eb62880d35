import type { Histogram } from '../runtime/histogram.ts'

type Labels = Readonly<Record<string, string | number>>

interface Sample {
  readonly value: number
  readonly labels?: Labels
  /** For metrics with several series of different names, such as histograms. */
  readonly metricName?: string
}

/** A metric of `/metrics`. Its values are read on request. */
export interface Metric {
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** Without the prefix of all metrics. */
  readonly name: string
  readonly help: string
  readonly read: () => readonly Sample[]
}

/** The prefix of all metrics. */
export const PREFIX = 'recollect_'

export function metric(type: Metric['type'], name: string, help: string, read: Metric['read']): Metric {
  return { type, name, help, read }
}

export function gauge(name: string, help: string, read: () => number): Metric {
  return metric('gauge', name, help, () => [{ value: read() }])
}

export function counter(name: string, help: string, read: () => number): Metric {
  return metric('counter', name, help, () => [{ value: read() }])
}

/** 1 for the current value of a label, 0 for the others. */
export function state(
  name: string,
  help: string,
  label: string,
  values: readonly string[],
  current: () => string | undefined,
): Metric {
  return metric('gauge', name, help, () => {
    const now = current()
    return values.map((value) => ({ value: Number(value === now), labels: { [label]: value } }))
  })
}

export function histogram(name: string, help: string, distribution: Histogram): Metric {
  return histograms(name, help, () => [[distribution, {}]])
}

/** Histograms by labels. */
export function histograms(name: string, help: string, read: () => readonly (readonly [Histogram, Labels])[]): Metric {
  return metric('histogram', name, help, () =>
    read().flatMap(([distribution, labels]) => seriesOf(PREFIX + name, distribution, labels)),
  )
}

/** A distribution as the series of a histogram. */
function seriesOf(name: string, distribution: Histogram, labels: Labels): readonly Sample[] {
  const counts = distribution.cumulative()
  const total = counts.at(-1) as number
  return [
    ...distribution.bounds.map((bound, index) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound },
      value: counts[index] as number,
    })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total },
    { metricName: `${name}_sum`, labels, value: distribution.sum },
    { metricName: `${name}_count`, labels, value: total },
  ]
}
