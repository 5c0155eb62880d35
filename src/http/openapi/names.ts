/**
 * Maps collections to identifiers for operation ids and components. Names that are equal without case and underscores
 * get a number, as generators drop both.
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
