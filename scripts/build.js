// Compiles src/ into dist/ and puts Swagger UI's files beside it.
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const require = createRequire(import.meta.url)
const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc')

rmSync(join(root, 'dist'), { recursive: true, force: true })
const compiled = spawnSync(process.execPath, [compiler, '-p', join(root, 'tsconfig.build.json')], { stdio: 'inherit' })
if (compiled.status !== 0) process.exit(compiled.status ?? 1)
chmodSync(join(root, 'dist', 'main.js'), 0o755)

const swagger = dirname(require.resolve('swagger-ui-dist/package.json'))
mkdirSync(join(root, 'dist', 'swagger'), { recursive: true })
for (const file of [
  'swagger-ui.css',
  'swagger-ui-bundle.js',
  'swagger-ui-standalone-preset.js',
  'favicon-32x32.png',
  'LICENSE',
]) {
  copyFileSync(join(swagger, file), join(root, 'dist', 'swagger', file))
}
