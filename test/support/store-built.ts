import { fetch, until } from './deadline.ts'

/** Waits until the server has started, or ended: it may listen before, and answers 503 until then. */
export async function storeBuilt(url: string): Promise<void> {
  await until(`the store of ${url}`, async () => {
    const health = await fetch(`${url}/health`).then(
      (response) => response.text(),
      () => '',
    )
    // After the store, the data file is imported. On a full disk the start waits, and tests of that go on.
    const isStarting = health.includes('"status":"unavailable"') && health.includes('"writable":true')
    return !health.includes('"state":"building"') && (!isStarting || health.includes('"state":"full"'))
  })
}
