// Buttons, choices, menus beside their buttons, and dialogs.
import type { Signal } from '@preact/signals'
import type { ComponentChildren, ComponentProps, TargetedToggleEvent } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'

type ButtonProperties = ComponentProps<'button'> & {
  readonly run: () => unknown
  readonly text?: string
  /** For screen readers, where the text is a sign. */
  readonly label?: string
}

/** One in a menu closes it. */
export function Button({ run, label, text, children, ...rest }: ButtonProperties) {
  const click = ({ currentTarget }: Event): void => {
    ;(currentTarget as Element).closest<HTMLElement>('[popover]')?.hidePopover()
    void run()
  }
  return (
    <button type="button" aria-label={label} onClick={click} {...(rest as object)}>
      {text ?? children}
    </button>
  )
}

interface ChoicesProperties {
  readonly label: string
  readonly options: readonly string[]
  readonly chosen: string
  readonly onChoose: (option: string) => void
}

/** A group of buttons, of which one is pressed. */
export function Choices({ label, options, chosen, onChoose }: ChoicesProperties) {
  return (
    <fieldset class="choices wrap" aria-label={label}>
      {options.map((one) => (
        <Button key={one} text={one} aria-pressed={one === chosen} run={() => onChoose(one)} />
      ))}
    </fieldset>
  )
}

/** Sets a signal: a listener in one expression. */
export function set<T>(signal: Signal<T>, value: T): () => void {
  return () => {
    signal.value = value
  }
}

/** Opens below its button. Esc, a click elsewhere, or one on a button in it, closes it. */
export function Menu({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  const id = useId()
  const [isOpen, setOpen] = useState(false)
  const place = ({ newState, currentTarget: menu }: TargetedToggleEvent<HTMLFieldSetElement>): void => {
    setOpen(newState === 'open')
    const { bottom, left } = (menu.previousElementSibling as HTMLElement).getBoundingClientRect()
    menu.style.top = `${bottom + 4}px`
    menu.style.left = `max(8px, min(${left}px, 100vw - 19rem))`
    menu.style.maxHeight = `calc(100dvh - ${bottom + 12}px)`
  }
  return (
    <span>
      <button type="button" popovertarget={id}>
        {label} <span aria-hidden="true">▾</span>
      </button>
      <fieldset id={id} class="menu card" popover="auto" aria-label={label} onBeforeToggle={place}>
        {isOpen && children}
      </fieldset>
    </span>
  )
}

interface DialogProperties {
  readonly title: string
  /** The text of the button that submits. */
  readonly action: string
  readonly isReady?: boolean
  readonly isWide?: boolean
  /** If it rejects, the dialog stays open and shows the error. */
  readonly onSubmit: (form: FormData) => Promise<void> | void
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** A form that is open as long as it is rendered. Esc closes it, and the focus returns to what opened it. */
export function Dialog({ title, action, isReady = true, isWide = false, ...rest }: DialogProperties) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const [problem, setProblem] = useState('')
  const [isSending, setSending] = useState(false)
  useLayoutEffect(() => {
    const { current } = dialog
    current?.showModal()
    // A dialog that is removed while it is open would not return the focus.
    return () => current?.close()
  }, [])
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    setSending(true)
    setProblem('')
    try {
      await rest.onSubmit(new FormData(event.currentTarget as HTMLFormElement))
    } catch (error) {
      setProblem(messageOf(error))
    }
    setSending(false)
  }
  const onClose = (): void => {
    if (dialog.current?.isConnected) rest.onClose()
  }
  return (
    <dialog ref={dialog} class={isWide ? 'wide' : ''} aria-labelledby={titleId} onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id={titleId} class="break">
          {title}
        </h2>
        {rest.children}
        <p class="bad-text break" role="alert">
          {problem}
        </p>
        <div class="row dialog-end">
          <button type="submit" class="primary" disabled={!isReady || isSending}>
            {action}
          </button>
          <Button text="Cancel" run={rest.onClose} />
        </div>
      </form>
    </dialog>
  )
}

/** Why a write failed. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Problem)) return (error as Error).message
  if (error.status === 412) return 'Somebody else has changed it meanwhile. Cancel to see the current version.'
  return error.status === 403 ? `Not allowed: ${error.message}` : error.message
}
