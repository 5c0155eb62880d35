/** The parts of wwwroot/pages/js/format.js that words.ts uses: plain JavaScript is checked with the pages only. */
declare module '*/format.js' {
  export function counted(value: number, one: string, many?: string): string
  export function short(value: unknown, most?: number): string
  export function visible(text: string): string
}
