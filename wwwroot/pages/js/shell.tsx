// The frame of all pages: the way to the others, one pill that says what is shown, and the time strip.
import { computed, effect, signal } from '@preact/signals'
import { render } from 'preact'
import { Problem, Unreachable } from '../../../src/client/index.ts'
import { address } from './address.ts'
import { caughtUp, epoch, health, isReplay, isReplayOver, now, role, signOut, start, state } from './app.ts'
import { Button, set } from './controls.tsx'
import { counted, moment } from './format.ts'
import { Messages } from './messages.tsx'
import { settled } from './resource.ts'
import { isSigningIn, SignIn } from './sign-in.tsx'
import { Strip } from './strip.tsx'
import { addressProblem, at, readAddress, showNow, speed } from './time.ts'

const PAGES = { home: 'Home', collections: 'Collections', sensors: 'Sensors', journal: 'Journal' } as const
const ICON = 'M5 19h6l3-9 5 14 3-8h5'
const SAID_MS = 1000
const CAUGHT_UP_MS = 8000
/** The page that is shown, as the build named it. */
const PAGE = (document.body.dataset.page ?? 'home') as keyof typeof PAGES
/** The subject of the page, for the title of the tab. */
export const subject = signal('')
const problem = signal<Error>()

/** The text of the pill, and its colour. */
const pill = computed((): { readonly kind: string; readonly text: string } => {
  if (state.value === 'refused') return { kind: 'refused', text: role.value === null ? 'Not signed in' : 'Not allowed' }
  if (state.value === 'gone') return { kind: 'gone', text: 'Reconnecting…' }
  if (state.value === 'connecting') return { kind: 'connecting', text: 'Connecting…' }
  const moments = at.value && moment(at.value.ms, now(), { withSeconds: speed.value === undefined })
  if (speed.value !== undefined) return { kind: 'past', text: `Replay ${speed.value}× · ${moments ?? ''}` }
  if (at.value) return { kind: 'past', text: `Viewing ${moments}` }
  if (isReplay.value) {
    const what = isReplayOver() ? 'Replay ended' : `Replay ${health.value?.replay?.speed}×`
    return { kind: 'live', text: `${what} · ${moment(now(), Date.now())}` }
  }
  if (caughtUp.value) return { kind: 'live', text: `Live, ${counted(caughtUp.value, 'change')} caught up` }
  if (health.value?.readOnly) return { kind: 'live', text: 'Read-only' }
  return { kind: 'live', text: health.value?.journal.writable === false ? 'Live, takes no writes' : 'Live' }
})
/** For screen readers: what lasts, not each moment of a drag. */
const said = settled(
  computed(() => pill.value.text),
  SAID_MS,
)

/** Begins a page. `show` is called when all has to be looked at anew: another moment, a reconnection, other credentials. */
export async function startShell(show: () => void = () => {}): Promise<void> {
  render(<Shell />, document.getElementById('shell') as HTMLElement)
  const notes = document.createElement('div')
  notes.id = 'notes'
  document.querySelector('main')?.prepend(notes)
  render(<Notes />, notes)
  address.onBack(() => void readAddress().catch(showProblem))
  effect(() => {
    const where = at.value ? `${moment(at.value.ms, now())} · ` : ''
    const what = subject.value === '' ? PAGES[PAGE] : `${subject.value} · ${PAGES[PAGE]}`
    document.title = `${state.value === 'gone' ? '(offline) ' : ''}${where}${what} · Recollect`
    document.documentElement.classList.toggle('past', at.value !== undefined)
  })
  effect(() => {
    if (caughtUp.value) setTimeout(set(caughtUp, undefined), CAUGHT_UP_MS)
  })
  await start()
  await readAddress().catch(showProblem)
  effect(() => {
    // Who signs in has not seen the moment of the address yet.
    if (epoch.value > 0 && address.get('at') !== undefined && !at.peek()) void readAddress().catch(showProblem)
  })
  effect(() => {
    void [at.value, epoch.value]
    queueMicrotask(show)
  })
}

const beginSignIn = set(isSigningIn, true)

/** Says what went wrong; without an error that all is well. */
export function showProblem(error?: unknown): void {
  const isShown = error instanceof Error && error.name !== 'AbortError'
  // The pill says that the server is gone or refuses; the words of browsers for it help nobody.
  const isGone = error instanceof Unreachable && state.value !== 'live'
  const isKnown = isGone || (error instanceof Problem && error.status === 401)
  problem.value = isShown && !isKnown ? error : undefined
}

function Shell() {
  const { kind, text } = pill.value
  const { access, readOnly } = health.value ?? {}
  const search = at.value ? `?at=${at.value.position}` : ''
  return (
    <>
      <div class="shell-top">
        <a class="brand" href={`home.html${search}`} aria-label="Recollect, home">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d={ICON} />
          </svg>
          <span class="brand-name">Recollect</span>
        </a>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([name, label]) => (
            <a key={name} href={`${name}.html${search}`} aria-current={name === PAGE ? 'page' : undefined}>
              {label}
            </a>
          ))}
          <a href="swagger/">API</a>
        </nav>
        <span class="pill" id="state" data-state={kind}>
          {text}
          {access?.actor && access.schemes.length > 0 && (
            <span class="quiet">{` · ${access.actor} (${access.role})`}</span>
          )}
          {readOnly && text !== 'Read-only' && <span class="quiet"> · read-only</span>}
        </span>
        {at.value && <Button text="Back to now" class="to-now" run={showNow} />}
        {access && access.schemes.length > 0 && (
          <Button
            text={access.actor === null ? 'Sign in' : 'Sign out'}
            id="account"
            run={access.actor === null ? beginSignIn : signOut}
          />
        )}
        <p role="status" class="hidden-text">
          {said}
        </p>
      </div>
      {role.value !== null && <Strip />}
      {isSigningIn.value && <SignIn />}
      <Messages />
    </>
  )
}

function Notes() {
  const isOut = state.value === 'refused' && role.value === null
  return (
    <>
      {isOut && (
        <div class="note warn row" id="refused">
          <p>This server requires you to sign in.</p>
          <Button text="Sign in" class="primary" run={beginSignIn} />
        </div>
      )}
      {problem.value && (
        <div class="note bad" id="problem" role="alert">
          <p class="break">{problem.value.message}</p>
        </div>
      )}
      {addressProblem.value && (
        <div class="note warn" role="alert">
          <p class="break">{addressProblem.value}</p>
        </div>
      )}
    </>
  )
}
