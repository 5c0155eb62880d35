import { setImmediate } from 'node:timers/promises'

/** What koa-body is made of, the largest first. */
const PARTS = ['zod', 'formidable', 'co-body']

/**
 * koa-body, loaded with the first body that Koa reads, as a server starts sooner without it. All of it at once would hold
 * everybody for 70 ms: its parts come one by one, and where npm did not put them within reach, with it.
 */
export async function loadKoaBody(): Promise<typeof import('koa-body').koaBody> {
  for (const part of PARTS) {
    await import(part).catch(() => {})
    await setImmediate()
  }
  return (await import('koa-body')).koaBody
}
