/** How to say who is asking, by one of the schemes that the server's settings allow; nothing where it asks nobody. */
export interface Credentials {
  /** From `POST /token`. */
  readonly token?: string
  readonly apiKey?: string
  /** With `password`: the scheme `basic`. */
  readonly username?: string
  readonly password?: string
}

/** Whether a browser sends what it holds itself: cookies of a proxy, a remembered password. */
export type BrowserCredentials = 'omit' | 'same-origin' | 'include'

export function headersOf({ token, apiKey, username, password }: Credentials): Readonly<Record<string, string>> {
  if (apiKey !== undefined) return { 'X-API-KEY': apiKey }
  if (token !== undefined) return { Authorization: `Bearer ${token}` }
  if (username !== undefined && password !== undefined) {
    return { Authorization: `Basic ${base64(`${username}:${password}`)}` }
  }
  return {}
}

/** Of the text's UTF-8. */
function base64(text: string): string {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))
}
