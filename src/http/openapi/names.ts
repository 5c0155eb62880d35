/**
 * Gives each collection a name for operation ids and components: an identifier in any language that begins with a
 * letter once it has a prefix. It is the collection's own where that is one. Generators join the words of ids, and some
 * files ignore the case, so names that differ only in these get a number.
 */
export class ComponentNames {
  readonly #taken = new Set([''])

  nameOf(collection: string): string {
    const plain = collection
      .normalize('NFKD')
      .replace(/\p{M}/gu, '')
      .replace(/[^\p{ASCII}]/gu, (character) => `_u${character.codePointAt(0)?.toString(16)}`)
      .replace(/[^A-Za-z0-9]+/g, '_')
    let name = plain
    for (let count = 2; this.#taken.has(withoutCase(name)); count++) name = `${plain}_${count}`
    this.#taken.add(withoutCase(name))
    return name
  }
}

function withoutCase(name: string): string {
  return name.replaceAll('_', '').toLowerCase()
}
