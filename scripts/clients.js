// The packages of test/clients, which `npm ci` of the project leaves out.
import { existsSync, statSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const CLIENTS = join('test', 'clients')
const PACKAGES = join(CLIENTS, 'node_modules')
/** npm writes it at the end of an installation. */
const INSTALLED = join(PACKAGES, '.package-lock.json')

/** Installs the packages unless they are as new as their lockfile, and checks the types of the tests that use them. */
export function provideClients(run) {
  const timeOf = (file) => statSync(file).mtimeMs
  if (!existsSync(INSTALLED) || timeOf(INSTALLED) < timeOf(join(CLIENTS, 'package-lock.json'))) {
    run('npm', ['ci', '--prefix', CLIENTS, '--no-audit', '--no-fund'])
  }
  run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', CLIENTS])
}

/** Lets the compiled tests of a directory import these packages, as the sources do. */
export function linkClients(directory) {
  symlinkSync(resolve(PACKAGES), join(directory, PACKAGES))
}
