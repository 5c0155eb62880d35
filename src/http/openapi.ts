export interface OpenApiOptions {
  readonly version: string
  /** The names of the collections that there are now. */
  readonly collections: () => readonly string[]
}

export function openApi({ version }: OpenApiOptions): object {
  return { openapi: '3.1.0', info: { title: 'Recollect', version }, paths: {} }
}
