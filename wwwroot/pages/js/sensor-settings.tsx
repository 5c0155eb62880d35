// The name, units, order and limits of a sensor, which are members of its item.
import { useRef } from 'preact/hooks'
import { client } from './app.ts'
import { Dialog } from './controls.tsx'
import { visible } from './format.ts'
import { type Item, limitsOf, measuresOf, nameOf, SENSORS, unitOf } from './measures.ts'
import { say } from './messages.tsx'

interface SettingsProperties {
  readonly sensor: string
  readonly item: Item
  readonly onClose: () => void
}

export function Settings({ sensor, item, onClose }: SettingsProperties) {
  const fields = useRef<HTMLDivElement>(null)
  const save = async (): Promise<void> => {
    const form = fields.current?.closest('form') as HTMLFormElement
    await client
      .collection(SENSORS)
      .item(sensor)
      .patch(patchOf(item, new FormData(form)))
    say('Saved.')
    onClose()
  }
  return (
    <Dialog title={`Settings of ${visible(String(nameOf(item)))}`} action="Save" onSubmit={save} onClose={onClose}>
      <div ref={fields} class="row">
        <label class="field">
          Name
          <input name="name" maxLength={80} defaultValue={typeof item.name === 'string' ? item.name : ''} />
        </label>
        <label class="field">
          Order: the least first
          <input name="order" type="number" step="any" class="limit" defaultValue={String(item.order ?? '')} />
        </label>
      </div>
      <div class="limits">
        <table>
          <thead>
            <tr>
              {['Measurement', 'Unit', 'Mark below', 'Mark above'].map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {measuresOf(item).map(({ name }) => (
              <Measurement key={name} item={item} name={name} />
            ))}
          </tbody>
        </table>
      </div>
    </Dialog>
  )
}

function Measurement({ item, name }: { readonly item: Item; readonly name: string }) {
  const { low, high } = limitsOf(item, name)
  const cell = (kind: string, value: string | number | undefined, attributes: object) => (
    <td>
      <input
        name={`${kind} ${name}`}
        aria-label={`${kind} of ${name}`}
        class="limit"
        defaultValue={String(value ?? '')}
        {...attributes}
      />
    </td>
  )
  return (
    <tr>
      <th scope="row" class="break">
        {visible(name)}
      </th>
      {cell('unit', unitOf(item, name), { maxLength: 12 })}
      {cell('low', low, { type: 'number', step: 'any' })}
      {cell('high', high, { type: 'number', step: 'any' })}
    </tr>
  )
}

/** The form as a merge patch: null removes a member. */
function patchOf(item: Item, form: FormData): Item {
  const text = (name: string): string | null => String(form.get(name) ?? '').trim() || null
  const number = (name: string): number | null => (text(name) === null ? null : Number(text(name)))
  const names = measuresOf(item).map(({ name }) => name)
  const units = names.map((name) => [name, text(`unit ${name}`)] as const)
  const thresholds = names.map((name) => {
    const limits = { low: number(`low ${name}`), high: number(`high ${name}`) }
    return [name, limits.low === null && limits.high === null ? null : limits] as const
  })
  return {
    name: text('name'),
    order: number('order'),
    units: Object.fromEntries(units),
    thresholds: Object.fromEntries(thresholds),
  }
}
