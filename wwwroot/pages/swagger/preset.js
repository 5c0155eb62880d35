// The script of the page beside Swagger UI. koa2-swagger-ui loads it under the name of the standalone preset, of which
// the page needs nothing and which has 69 KB compressed.

/** The server as the browser addresses it: host and base path. */
const { host, pathname } = new URL('..', location.href)
const title = `Recollect · ${host}${pathname.slice(0, -1)}`
document.title = title

// Swagger UI has dark colours, but only its standalone preset switches them.
const dark = matchMedia('(prefers-color-scheme: dark)')
const setTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', setTheme)
setTheme()

/** @type {(element: Element) => string} */
const parameterOf = (element) => element.closest('[data-param-name]')?.getAttribute('data-param-name') ?? 'Request body'

/**
 * What assistive technology needs and Swagger UI leaves out, with the attribute and its value. React keeps attributes
 * that it did not set.
 *
 * @type {readonly (readonly [string, string, (element: Element) => string])[]}
 */
const LACKING = [
  ['.opblock-body :is(input, select, textarea):not([aria-label], [id])', 'aria-label', parameterOf],
  ['.information-container, .scheme-container', 'role', () => 'region'],
  ['.information-container', 'aria-label', () => 'About'],
  ['.scheme-container', 'aria-label', () => 'Authorization'],
  // As a region it would not be a table, and it has no name.
  ['.responses-table', 'role', () => 'table'],
  ['.microlight', 'tabindex', () => '0'],
  ['.modal-ux', 'role', () => 'dialog'],
  ['.modal-ux', 'aria-label', () => 'Authorization'],
  ['.modal-ux-header h3', 'aria-level', () => '2'],
  ['.auth-container h4', 'aria-level', () => '3'],
  ['.close-modal', 'aria-label', () => 'Close'],
  ['.auth-btn-wrapper .authorize', 'aria-label', ({ textContent }) => `${textContent}: apply credentials`],
  [
    '.auth-container input',
    'aria-label',
    (input) => input.closest('.wrapper')?.querySelector('label')?.textContent ?? '',
  ],
  ['.json-schema-2020-12-accordion', 'aria-label', (accordion) => accordion.textContent || 'Fields'],
]

function mend() {
  for (const [selector, attribute, of] of LACKING) {
    for (const element of document.querySelectorAll(selector)) {
      const value = of(element)
      if (element.getAttribute(attribute) !== value) element.setAttribute(attribute, value)
    }
  }
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })

/** @typedef {import('react').ComponentType<any>} Component */
/** @typedef {{ React: typeof import('react') }} System */

/**
 * In place of a link inside of a button, which cannot be used by keyboard. The address of an operation is set when it is
 * opened.
 *
 * @param {{ text: unknown }} props
 */
const DeepLink = ({ text }) => text

/** @type {(Operations: Component, system: System) => Component} */
const operationsWithHeading =
  (Operations, { React }) =>
  (props) =>
    React.createElement(
      React.Fragment,
      null,
      React.createElement('h2', { className: 'hidden-text' }, 'Operations'),
      React.createElement(Operations, props),
    )

export default [
  () => ({
    components: { DeepLink },
    wrapComponents: { operations: operationsWithHeading },
    statePlugins: { spec: { wrapSelectors: { selectInfoTitleField: () => () => title } } },
  }),
]
