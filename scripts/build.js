// Bundles src/ into dist/, with the types of the library and of the client, and beside it the pages, Swagger UI, and for pages of others the client, and uPlot, which draws charts. What
// was built before stays until all of it is done.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { buildPages } from './build-pages.js'
import { precompress } from './precompress.js'

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

buildSwagger(join(built, 'pages', 'swagger'))

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

buildPages(root, join(built, 'pages'))

const uplot = dirname(require.resolve('uplot/package.json'))
mkdirSync(join(built, 'pages', 'uplot'))
copyFileSync(join(uplot, 'LICENSE'), join(built, 'pages', 'uplot', 'LICENSE'))
for (const file of ['uPlot.esm.js', 'uPlot.min.css']) {
  copyFileSync(join(uplot, 'dist', file), join(built, 'pages', 'uplot', file))
}

/**
 * The files of Swagger UI, under the names by which the page of koa2-swagger-ui requests them. The directory's name has
 * a hash of them, so that browsers can cache them for ever.
 */
function buildSwagger(directory) {
  const from = dirname(require.resolve('swagger-ui-dist/package.json'))
  const own = join(root, 'wwwroot', 'pages', 'swagger')
  const { outputFiles } = buildSync({
    stdin: {
      contents: `@import ${JSON.stringify(join(from, 'swagger-ui.css'))}; @import './swagger.css';`,
      loader: 'css',
      resolveDir: own,
    },
    bundle: true,
    minify: true,
    write: false,
    logLevel: 'warning',
  })
  const preset = buildSync({
    entryPoints: [join(own, 'preset.js')],
    globalName: 'SwaggerUIStandalonePreset',
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    write: false,
    logLevel: 'warning',
  })
  const files = [
    ['swagger-ui.min.css', outputFiles[0].contents],
    ['swagger-ui-bundle.js', readFileSync(join(from, 'swagger-ui-bundle.js'))],
    ['swagger-ui-standalone-preset.js', preset.outputFiles[0].contents],
    ['icon.svg', readFileSync(join(root, 'wwwroot', 'pages', 'icon.svg'))],
    ['LICENSE', readFileSync(join(from, 'LICENSE'))],
  ]
  const digest = createHash('sha256')
  for (const [, contents] of files) digest.update(contents)
  const assets = join(directory, `assets-${digest.digest('hex').slice(0, 8).toUpperCase()}`)
  mkdirSync(assets, { recursive: true })
  for (const [name, contents] of files) writeFileSync(join(assets, name), contents)
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

await precompress(join(built, 'pages'), join(root, 'dist', 'pages'))
rmSync(join(root, 'dist'), { recursive: true, force: true })
renameSync(built, join(root, 'dist'))
