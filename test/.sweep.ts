import { LIST_BYTES, LIST_OPERATIONS, LIST_SHAPES } from './security/cost-lists.ts'
import { Costs, measureList, open } from './security/cost-server.ts'
import { Random } from './support/random.ts'

const afters: any[] = []
const filter = new RegExp(process.env.OPS ?? '^(?!.*asOf$)')
const costs = new Costs()
for (const shape of (process.env.SHAPES ?? Object.keys(LIST_SHAPES).join(';')).split(';')) {
  const s = await open({ after: (f: any) => afters.push(f) } as any, 'open')
  const names = Object.keys(LIST_OPERATIONS).filter((n) => filter.test(n))
  for (const n of names) {
    const op = LIST_OPERATIONS[n]!
    ;(LIST_OPERATIONS as any)[n] = async (l: any) => {
      const t = performance.now()
      try {
        return await op(l)
      } finally {
        if (performance.now() - t > 8000) console.log('  slow', shape, n, Math.round(performance.now() - t))
      }
    }
  }
  const random = new Random(1)
  const measured = await measureList(
    s,
    LIST_SHAPES[shape]!(Number(process.env.BYTES ?? LIST_BYTES), random),
    names,
    random,
  )
  for (const [what, cost] of measured) {
    if (cost.block > 22 || cost.failures.length)
      console.log(
        shape,
        '|',
        what,
        '| block',
        cost.block.toFixed(1),
        'ms',
        cost.ms.toFixed(0),
        cost.failures.slice(0, 1),
      )
  }
  console.log('done', shape)
  s.process.kill('SIGKILL')
}
for (const f of afters) await f()
process.exit(0)
