export type Schedule = (work: () => void, delayMs: number) => { cancel(): void }
