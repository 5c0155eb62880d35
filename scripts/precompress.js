// Compresses the files of a directory once, so that the server need not compress them for each client.
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const TEXT = ['.css', '.html', '.js', '.json', '.svg']
/** A smaller file fits into one packet anyway. */
const LEAST_BYTES = 1024

const FORMS = [
  {
    ending: '.br',
    compress: promisify(brotliCompress),
    options: { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } },
  },
  { ending: '.gz', compress: promisify(gzip), options: { level: constants.Z_BEST_COMPRESSION } },
]

/**
 * Writes `.br` and `.gz` beside each text file below `directory`. Brotli takes 2 s for Swagger UI, so the compressed
 * files of `previous`, the same directory of the last build, are reused where the file has not changed.
 */
export async function precompress(directory, previous) {
  const files = readdirSync(directory, { recursive: true }).filter((file) => TEXT.includes(extname(file)))
  await Promise.all(files.map((file) => compressFile(join(directory, file), join(previous, file))))
}

async function compressFile(path, previous) {
  const bytes = readFileSync(path)
  if (bytes.length < LEAST_BYTES) return
  const isSame = existsSync(previous) && readFileSync(previous).equals(bytes)
  for (const { ending, compress, options } of FORMS) {
    if (isSame && existsSync(previous + ending)) copyFileSync(previous + ending, path + ending)
    else writeFileSync(path + ending, await compress(bytes, options))
  }
}
