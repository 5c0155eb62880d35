/** In ascending order: each role includes the previous ones. */
export const ROLES = ['reader', 'writer', 'admin'] as const
export type Role = (typeof ROLES)[number]

export function includes(role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed)
}

const SAFE = ['GET', 'HEAD', 'OPTIONS']

/** Safe methods only read (RFC 9110 §9.2.1). */
export function isSafe(method: string): boolean {
  return SAFE.includes(method)
}

interface Surface {
  readonly path: RegExp
  readonly safe: Role
  readonly unsafe: Role
}

/** All paths that need a role. Static files, the OpenAPI document, /health and /token are public and show no items. */
const SURFACES: readonly Surface[] = [
  // A POST replaces all collections.
  { path: /^\/api\/?$/i, safe: 'reader', unsafe: 'admin' },
  { path: /^\/api(\/|$)/i, safe: 'reader', unsafe: 'writer' },
  { path: /^\/events(\/|$)/i, safe: 'reader', unsafe: 'reader' },
  { path: /^\/metrics(\/|$)/i, safe: 'reader', unsafe: 'reader' },
  { path: /^\/logout(\/|$)/i, safe: 'reader', unsafe: 'reader' },
  { path: /^\/admin(\/|$)/i, safe: 'admin', unsafe: 'admin' },
]

/** The role that a request needs; undefined if it is public. */
export function neededRole(method: string, path: string): Role | undefined {
  const surface = SURFACES.find((one) => one.path.test(path))
  return surface && (isSafe(method) ? surface.safe : surface.unsafe)
}
