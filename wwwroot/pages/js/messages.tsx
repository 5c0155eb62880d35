// What is said in a corner of the page for a while, and to screen readers.
import { signal } from '@preact/signals'
import { Button } from './controls.tsx'

interface Message {
  readonly text: string
  readonly isBad?: boolean
  readonly action?: { readonly name: string; readonly run: () => void }
}

const SAID_MS = 8000
const OFFERED_MS = 30_000

const messages = signal<readonly Message[]>([])

export function say(text: string, options: Omit<Message, 'text'> = {}): void {
  const message = { text, ...options }
  messages.value = [...messages.value, message]
  setTimeout(() => remove(message), options.action ? OFFERED_MS : SAID_MS)
}

function remove(message: Message): void {
  messages.value = messages.value.filter((one) => one !== message)
}

export function Messages() {
  return (
    <div id="messages" role="status">
      {messages.value.map((message) => {
        const { text, isBad, action } = message
        const act = (): void => {
          remove(message)
          action?.run()
        }
        return (
          <div key={message} class={isBad ? 'message bad' : 'message'}>
            <span>{text}</span>
            {action && <Button text={action.name} run={act} />}
            <Button text="✕" class="plain" label="Dismiss" run={() => remove(message)} />
          </div>
        )
      })}
    </div>
  )
}
