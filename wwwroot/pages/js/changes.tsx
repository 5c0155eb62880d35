// The changes of an event: the paths of an item, each with its value before and after.
import type { ValueChange } from '../../../src/client/index.ts'
import { counted } from './format.ts'
import { nameOfPath, valueText } from './words.ts'

const MOST = 50

export function Changes({ changes }: { readonly changes: readonly ValueChange[] }) {
  return (
    <ul class="changes">
      {changes.slice(0, MOST).map(({ path, ...change }) => (
        <li key={path} class="break">
          <span class="quiet">{path === '' ? 'item' : nameOfPath(path)}</span>{' '}
          {'before' in change && <del>{valueText(change.before)}</del>}{' '}
          {'after' in change && <ins>{valueText(change.after)}</ins>}
        </li>
      ))}
      {changes.length > MOST && <li class="quiet">{counted(changes.length - MOST, 'more change')}</li>}
    </ul>
  )
}
