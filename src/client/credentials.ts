/** Credentials for one of the schemes that the server accepts; empty if it needs none. */
export interface Credentials {
  /** From `POST /token`. */
  readonly token?: string
  readonly apiKey?: string
  /** With `password`: the scheme `basic`. */
  readonly username?: string
  readonly password?: string
}

/** Whether a browser sends credentials of its own: cookies of a proxy, a stored password. */
export type BrowserCredentials = 'omit' | 'same-origin' | 'include'

export function headersOf({ token, apiKey, username, password }: Credentials): Readonly<Record<string, string>> {
  if (apiKey !== undefined) return { 'X-API-KEY': apiKey }
  if (token !== undefined) return { Authorization: `Bearer ${token}` }
  if (username !== undefined && password !== undefined) {
    return { Authorization: `Basic ${base64(`${username}:${password}`)}` }
  }
  return {}
}

/** Encodes the UTF-8 of a text. */
function base64(text: string): string {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))
}
