// One item beside the table: its value, its history, and, for writers, another value in its place.

import { effect, signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'
import { changesBetween } from '../../../src/json/changes.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client, may, onUpdated } from './app.ts'
import { Button, Choices, set } from './controls.tsx'
import { deleteItems } from './deletion.ts'
import { draftOf } from './drafts.ts'
import { visible } from './format.ts'
import { ItemEditor, type Shown } from './item-editor.tsx'
import { Changes, itemHistory, Timeline } from './item-history.tsx'
import { Value } from './json-view.tsx'
import { go, place } from './query.ts'
import { calm, resource } from './resource.ts'
import { RestoreDialog } from './restore.tsx'
import { collection, idOf, isObject } from './rows.ts'
import { focusTable, mayWrite } from './table.tsx'
import { asOf, showPosition } from './time.ts'

const LIVE_MS = 250

const TABS = ['Value', 'History']
const tab = signal('Value')
/** `new`: an item that is not there yet. */
const editing = signal<'item' | 'new'>()
const turn = signal(0)
const calmTurn = calm(turn, LIVE_MS)
const isDeleting = signal(false)
const readTurn = signal(0)
// The page may hear of the deletion before it has the response: until then the item is not read again.
effect(() => {
  if (!isDeleting.value) readTurn.value = calmTurn.value
})
const restoring = signal<number>()

/** The key of the item; empty for a single object. */
const wantedKey = (): string | undefined => (isObject.value ? '' : place.value.item)
const question = () => {
  const id = wantedKey()
  if (id === undefined || collection.value === undefined) return undefined
  return { name: collection.value, id, at: asOf.value, turn: asOf.value === undefined ? readTurn.value : 0 }
}

const shown = resource(question, ({ name, id, at }) => read(name, id, at))
const today = resource(
  () => (asOf.value === undefined ? undefined : question()),
  ({ name, id }) => read(name, id, undefined),
)
const history = itemHistory(() => {
  const asked = tab.value === 'History' ? question() : undefined
  return asked && { ...asked, collection: asked.name }
})
onUpdated(({ collection: name, itemId }) => {
  if (name === collection.value && String(itemId ?? '') === wantedKey()) turn.value++
})
// Another item is no longer edited; its draft is kept.
effect(() => {
  void [place.value.item, place.value.collection]
  editing.value = undefined
})
effect(() => {
  const { item, key = '' } = shown.value.value ?? {}
  if (item && mayWrite.value && draftOf(collection.peek() ?? '', key).read()) editing.value = 'item'
})

async function read(collection: string, id: string, at: number | undefined): Promise<Shown> {
  const own = id === '' ? client.object<JsonObject>(collection) : client.collection<JsonObject>(collection).item(id)
  try {
    return { collection, key: id, ...(await (at === undefined ? own : own.asOf(at)).get()) }
  } catch (error) {
    if (!(error instanceof Problem) || ![400, 404].includes(error.status)) throw error
    return { collection, key: id, item: undefined, etag: '', position: 0 }
  }
}

export const beginItem = set<typeof editing.value>(editing, 'new')

export const isPanelOpen = (): boolean => wantedKey() !== undefined || editing.value === 'new'

function close(): void {
  go({ item: undefined })
  focusTable()
}

export function ItemPanel() {
  const panel = useRef<HTMLElement>(null)
  const key = wantedKey() ?? ''
  const { value } = shown.value
  const loaded = value?.key === key && value.collection === collection.value ? value : undefined
  // The panel takes the focus from what opened it, and from an editor that is done.
  const takesFocus = !editing.value && document.activeElement?.closest('#table, #item')
  // biome-ignore lint/correctness/useExhaustiveDependencies: another item takes the focus, too.
  useLayoutEffect(() => {
    if (takesFocus) panel.current?.focus()
  }, [key, editing.value])
  const isNew = editing.value === 'new'
  return (
    <section
      ref={panel}
      class="card item"
      id="item"
      aria-labelledby="item-title"
      tabIndex={-1}
      onKeyDown={({ key }) => key === 'Escape' && !editing.value && restoring.value === undefined && close()}
    >
      <div class="row item-head">
        <h2 class="break" id="item-title">
          {isNew ? `New item in ${visible(collection.value ?? '')}` : visible(key || collection.value || '')}
        </h2>
        {isObject.value && <p class="quiet">single object</p>}
        {!isObject.value && !editing.value && <Button text="✕" class="plain push" label="Close" run={close} />}
      </div>
      {editing.value && (isNew || loaded?.item) ? (
        <ItemEditor
          key={isNew ? '\0' : key}
          collection={collection.value ?? ''}
          shown={isNew ? undefined : loaded}
          onDone={(created) => {
            editing.value = undefined
            turn.value++
            if (created !== undefined) go({ item: created })
            else if (!isPanelOpen()) focusTable()
          }}
        />
      ) : (
        loaded && <View loaded={loaded} />
      )}
      {shown.error.value && <p class="bad-text break">{shown.error.value.message}</p>}
      {restoring.value !== undefined && (
        <RestoreDialog
          position={restoring.value}
          collection={collection.value ?? ''}
          id={loaded?.item && key !== '' ? idOf(loaded.item) : key}
          onClose={set(restoring, undefined)}
        />
      )}
    </section>
  )
}

function View({ loaded: { key, item, position } }: { readonly loaded: Shown }) {
  const remove = async (): Promise<void> => {
    const id = key === '' ? '' : idOf(item as JsonObject)
    isDeleting.value = true
    try {
      if ((await deleteItems(collection.value ?? '', [id], position)) && key !== '') close()
    } finally {
      isDeleting.value = false
    }
  }
  const then = asOf.value === undefined ? undefined : today.value.value
  return (
    <>
      <div class="row">
        <Choices label="Show" options={TABS} chosen={tab.value} onChoose={(one) => set(tab, one)()} />
        {item && mayWrite.value && (
          <>
            <Button text="Edit" class="push" run={set(editing, 'item')} />
            <Button text="Delete" class="danger" run={remove} />
          </>
        )}
      </div>
      {tab.value === 'History' && (
        <div class="value">
          <Timeline history={history}>
            {({ position }) => (
              <>
                <Button text="Show this moment" class="plain" run={() => showPosition(position)} />
                {may('admin') && <Button text="Restore this version…" class="plain" run={set(restoring, position)} />}
              </>
            )}
          </Timeline>
        </div>
      )}
      {tab.value === 'Value' && (
        <div class="value">
          {item ? (
            <Value value={item} />
          ) : (
            <p class="quiet">There is no such item{asOf.value === undefined ? '' : ' at this moment'}.</p>
          )}
          {item && then && <SinceThen item={item} now={then.item} />}
        </div>
      )}
    </>
  )
}

/** The changes from the item that is shown to that of today. */
function SinceThen({ item, now }: { readonly item: JsonObject; readonly now: JsonObject | undefined }) {
  const changes = now ? changesBetween(item, now) : []
  if (now && changes.length === 0) return null
  return (
    <div class="note warn">
      <h3>{now ? 'Changed since' : 'Deleted since'}</h3>
      <Changes changes={changes} />
    </div>
  )
}
