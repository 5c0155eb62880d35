import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The path of a built file of Swagger UI; its directory has a hash in its name. */
export function swaggerAsset(name: string): string {
  const directory = fileURLToPath(new URL('../../dist/pages/swagger', import.meta.url))
  return `/swagger/${readdirSync(directory).find((one) => one.startsWith('assets-'))}/${name}`
}
