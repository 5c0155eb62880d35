// Runs test files in the order in which they are given, which `node --test` does not: it sorts them.
// `node --import tsx scripts/in-order.js <files at once> <file>…`
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

const [atOnce, ...files] = process.argv.slice(2)
run({ files, concurrency: Number(atOnce) })
  .on('test:fail', ({ todo, skip }) => {
    if (!todo && !skip) process.exitCode = 1
  })
  .compose(spec)
  .pipe(process.stdout)
