// The dialog in which one says who one is, by one of the schemes that the server knows.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'
import { health, signIn } from './app.ts'

const NAMES = { token: 'Name and password', basic: 'Name and password, sent each time', apikey: 'API key' }

export const isSigningIn = signal(false)
const chosen = signal<keyof typeof NAMES>()
const problem = signal('')
const isSending = signal(false)

export function SignIn() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const schemes = health.value?.access.schemes ?? []
  const scheme = chosen.value ?? schemes[0] ?? 'token'
  const close = (): void => {
    isSigningIn.value = false
    problem.value = ''
  }
  const send = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const text = (name: string): string => String(form.get(name) ?? '')
    isSending.value = true
    problem.value = ''
    const credentials =
      scheme === 'apikey' ? { apiKey: text('key') } : { username: text('username'), password: text('password') }
    try {
      if (await signIn(scheme, credentials)) close()
      else problem.value = 'The credentials are wrong.'
    } catch (error) {
      const isWrong = error instanceof Problem && error.status === 401
      problem.value = isWrong ? 'The credentials are wrong.' : (error as Error).message
    }
    isSending.value = false
  }
  return (
    <dialog ref={dialog} aria-labelledby="sign-in-title" onClose={close}>
      <form onSubmit={send}>
        <h2 id="sign-in-title">Sign in</h2>
        {schemes.length > 1 && (
          <fieldset class="choices wrap" aria-label="How">
            {schemes.map((one) => (
              <button
                type="button"
                key={one}
                aria-pressed={one === scheme}
                onClick={() => {
                  chosen.value = one
                }}
              >
                {NAMES[one]}
              </button>
            ))}
          </fieldset>
        )}
        <div class="row">
          {scheme === 'apikey' ? (
            <label class="field">
              API key <input name="key" type="password" autocomplete="off" required />
            </label>
          ) : (
            <>
              <label class="field">
                Name <input name="username" type="text" autocomplete="username" required />
              </label>
              <label class="field">
                Password <input name="password" type="password" autocomplete="current-password" required />
              </label>
            </>
          )}
        </div>
        <p class="bad-text" role="alert">
          {problem}
        </p>
        <p class="quiet">This is kept until the tab is closed or you sign out.</p>
        <div class="row">
          <button class="primary" type="submit" disabled={isSending}>
            Sign in
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  )
}
