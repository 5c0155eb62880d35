// Bundles the pages: an HTML file with its styles, and one script whose name has its hash, so that browsers keep it.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, extname, join, relative } from 'node:path'
import { buildSync } from 'esbuild'

const BANNER =
  '/*! Recollect, with Preact, TanStack Virtual, socket.io-client, and uPlot on the sensors page. All of it: MIT license. */'
const TITLES = { home: 'Home', collections: 'Collections', sensors: 'Sensors', journal: 'Journal' }

/**
 * @param {string} root of the repository
 * @param {string} directory that the pages are written to
 */
export function buildPages(root, directory) {
  const sources = join(root, 'wwwroot', 'pages')
  const template = readFileSync(join(sources, 'page.html'), 'utf8')
  const icon = readFileSync(join(sources, 'icon.svg'), 'utf8').replaceAll(/\s*\n\s*/g, '')
  const names = Object.keys(TITLES)
  /** @type {import('esbuild').BuildOptions & { write: false, metafile: true }} */
  const options = {
    absWorkingDir: root,
    outdir: join(directory, 'assets'),
    entryNames: '[name]-[hash]',
    bundle: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    banner: { js: BANNER },
    metafile: true,
    write: false,
    logLevel: 'warning',
  }
  mkdirSync(join(directory, 'assets'), { recursive: true })
  // Charts are drawn after everything else: their library is a file of its own, which they import.
  const library = buildSync({ ...options, entryPoints: { uplot: 'uplot' } })
  for (const { path, text } of library.outputFiles) writeFileSync(path, text)
  const { metafile, outputFiles } = buildSync({
    ...options,
    entryPoints: names.map((name) => join(sources, 'js', `${name}.tsx`)),
    define: { UPLOT: JSON.stringify(`./${basename(library.outputFiles[0]?.path ?? '')}`) },
    external: ['./uplot-*'],
  })
  const [early] = buildSync({
    absWorkingDir: root,
    entryPoints: [join(sources, 'js', 'early.ts')],
    bundle: true,
    target: 'es2022',
    minify: true,
    write: false,
    logLevel: 'warning',
  }).outputFiles
  const earlyScript = early?.text.trim() ?? ''
  const contents = new Map(outputFiles.map(({ path, text }) => [relative(root, path), text]))
  for (const [file, { entryPoint, cssBundle }] of Object.entries(metafile.outputs)) {
    if (entryPoint === undefined || cssBundle === undefined) continue
    const name = basename(entryPoint, extname(entryPoint))
    const style = (contents.get(cssBundle) ?? '').trim()
    /** @type {Record<string, string>} */
    const values = {
      name,
      title: TITLES[/** @type {keyof typeof TITLES} */ (name)],
      icon: `data:image/svg+xml,${encodeURIComponent(icon)}`,
      styles: `<style>${style}</style>`,
      'style-hash': hashOf(style),
      early: `<script data-page="${name}">${earlyScript}</script>`,
      'early-hash': hashOf(earlyScript),
      script: relative(directory, join(root, file)),
    }
    writeFileSync(join(root, file), contents.get(file) ?? '')
    writeFileSync(
      join(directory, `${name}.html`),
      template.replaceAll(/\{\{([a-z-]+)\}\}/g, (_, key) => values[key] ?? ''),
    )
  }
}

/**
 * @param {string} text of a style or script in the page
 * @returns {string} its name for the content security policy
 */
function hashOf(text) {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}
