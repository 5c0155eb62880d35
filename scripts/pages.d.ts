// What the build puts beside the pages, for their type check.
declare module '*/uplot/uPlot.esm.js' {
  export { default } from 'uplot'
}
