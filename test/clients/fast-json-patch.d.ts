/** The module that the README of fast-json-patch names for Node, and that the package has no types for. */
declare module 'fast-json-patch/index.mjs' {
  export * from 'fast-json-patch'
}
