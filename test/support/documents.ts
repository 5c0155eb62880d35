/** A fenced block; its info string is a language and, where the block is a file, the file's name. */
export interface Block {
  readonly line: number
  readonly language: string
  readonly file: string | undefined
  readonly text: string
}

export function blocksOf(page: string): readonly Block[] {
  return [...page.matchAll(/^```(\S*)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = '', 2: file, 3: text = '' }) => ({
      line: page.slice(0, index).split('\n').length,
      language,
      file,
      text,
    }),
  )
}

/** `$ ` begins a command, which a `\` at the end of a line continues; what follows is its output. */
export function transcript(text: string): readonly { readonly command: string; readonly output: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [, command = '', output = ''] = /^((?:.*\\\n)*.*)\n?([\s\S]*)$/.exec(part) ?? []
      return { command, output }
    })
}

/** Without what differs from one run to the next. */
export function lasting(output: string): string {
  return output
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
    .replace(/"time":"[^"]*"/g, '"time":"<now>"')
    .replace(/^scrypt\$32768\$8\$1\$[\w-]{22}\$[\w-]{43}$/gm, '<hash>')
    .replaceAll('\r', '')
    .trim()
}

/** From the title of the section to the next title. */
export function sectionOf(page: string, title: string): string {
  const [, section = ''] = page.split(`## ${title}\n`)
  return section.split(/^#/m)[0] ?? ''
}
