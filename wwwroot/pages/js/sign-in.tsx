// The dialog in which one says who one is, by one of the schemes that the server knows.
import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { type Credentials, Problem } from '../../../src/client/index.ts'
import { health, signIn } from './app.ts'
import { Choices, Dialog, set } from './controls.tsx'

const NAMES = { token: 'Name and password', basic: 'Name and password, sent each time', apikey: 'API key' }

export const isSigningIn = signal(false)

export function SignIn() {
  const schemes = health.value?.access.schemes ?? []
  const [scheme, setScheme] = useState(schemes[0] ?? 'token')
  const close = set(isSigningIn, false)
  const send = async (form: FormData): Promise<void> => {
    const isAccepted = await signIn(scheme, Object.fromEntries(form) as Credentials).catch((error) => {
      if (error instanceof Problem && error.status === 401) return false
      throw error
    })
    if (!isAccepted) throw new Error('The credentials are wrong.')
    close()
  }
  return (
    <Dialog title="Sign in" action="Sign in" onSubmit={send} onClose={close}>
      {schemes.length > 1 && (
        <Choices
          label="How"
          options={schemes.map((one) => NAMES[one])}
          chosen={NAMES[scheme]}
          onChoose={(name) => setScheme(schemes.find((one) => NAMES[one] === name) ?? scheme)}
        />
      )}
      <div class="row">
        {scheme === 'apikey' ? (
          <label class="field">
            API key <input name="apiKey" type="password" autocomplete="off" required />
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
      <p class="quiet">This is kept until the tab is closed or you sign out.</p>
    </Dialog>
  )
}
