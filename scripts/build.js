// Bundles src/ into dist/, with the types of the library and of the client, and puts beside it what pages load: Swagger UI, the client, and uPlot,
// which draws charts. What was built before stays until all of it is done.
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const require = createRequire(import.meta.url)
const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc')
const built = join(root, `dist.${process.pid}`)
const types = join(built, 'types')

const compiled = spawnSync(process.execPath, [compiler, '-p', join(root, 'tsconfig.build.json'), '--outDir', types], {
  stdio: 'inherit',
})
if (compiled.status !== 0) {
  rmSync(built, { recursive: true, force: true })
  process.exit(compiled.status ?? 1)
}

// The types of the other modules belong to nobody outside, and need packages that are not installed there.
for (const entry of ['library/index', 'client/index', 'client/react']) copyTypes(`${entry}.d.ts`)
rmSync(types, { recursive: true })

// Loading 200 modules takes 0.2 s of processor time at each start; a bundle avoids it.
buildSync({
  entryPoints: ['main.ts', join('library', 'index.ts'), join('client', 'index.ts'), join('client', 'react.ts')].map(
    (entry) => join(root, 'src', entry),
  ),
  outdir: built,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  packages: 'external',
  sourcemap: true,
  logLevel: 'warning',
})
chmodSync(join(built, 'main.js'), 0o755)

const swagger = dirname(require.resolve('swagger-ui-dist/package.json'))
const assets = join(built, 'pages', 'swagger', 'assets')
mkdirSync(assets, { recursive: true })
// By the names under which the page of koa2-swagger-ui requests them.
for (const [file, name = file] of [
  ['swagger-ui.css', 'swagger-ui.min.css'],
  ['swagger-ui-bundle.js'],
  ['swagger-ui-standalone-preset.js'],
  ['favicon-32x32.png'],
  ['LICENSE'],
]) {
  copyFileSync(join(swagger, file), join(assets, name))
}

// One file with all that it needs: a page loads it from its own origin, without an import map.
buildSync({
  entryPoints: [join(root, 'src', 'client', 'page.ts')],
  outfile: join(built, 'pages', 'client', 'index.js'),
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  minifySyntax: true,
  minifyWhitespace: true,
  banner: { js: '/*! The client of Recollect, with socket.io-client and what that needs. All of it: MIT license. */' },
  logLevel: 'warning',
})

const uplot = dirname(require.resolve('uplot/package.json'))
mkdirSync(join(built, 'pages', 'uplot'))
copyFileSync(join(uplot, 'LICENSE'), join(built, 'pages', 'uplot', 'LICENSE'))
for (const file of ['uPlot.esm.js', 'uPlot.min.css']) {
  copyFileSync(join(uplot, 'dist', file), join(built, 'pages', 'uplot', file))
}

/** Copies a declaration file, and those that it imports. */
function copyTypes(file, seen = new Set()) {
  if (seen.has(file)) return
  seen.add(file)
  mkdirSync(dirname(join(built, file)), { recursive: true })
  copyFileSync(join(types, file), join(built, file))
  const text = readFileSync(join(types, file), 'utf8')
  for (const [, imported] of text.matchAll(/(?:from |import\()['"](\.[^'"]+)\.[jt]s['"]/g)) {
    copyTypes(join(dirname(file), `${imported}.d.ts`), seen)
  }
}

rmSync(join(root, 'dist'), { recursive: true, force: true })
renameSync(built, join(root, 'dist'))
