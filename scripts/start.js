// `npm start`: builds what is not built yet, then runs it in this process, so that signals reach it.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const main = join(root, 'dist', 'main.js')

function newest(path) {
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(...readdirSync(path).map((name) => newest(join(path, name))))
}

const sources = ['src', 'package.json', 'tsconfig.json', 'tsconfig.build.json'].map((name) => join(root, name))
if (!existsSync(main) || Math.max(...sources.map(newest)) > statSync(main).mtimeMs) {
  const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.js')], { stdio: 'inherit' })
  if (built.status !== 0) process.exit(built.status ?? 1)
}
await import(main)
