import type { Context } from 'koa'
import type { RestoreOutcome } from '../commands/outcome.ts'
import type { Origin } from '../events/journal.ts'
import { DEFAULT_ITEM_VALUES } from '../json/item-size.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import { hasBody, JSON_TYPE, readBody } from './bodies.ts'
import { bodyOf } from './koa-body.ts'
import { authorOf } from './requests.ts'
import { checkedRequest, RESTORE_SCHEMA, sendRestored } from './restoration.ts'

/** Returns everything to the first data. */
export type Reset = (origin: Origin, isDryRun: boolean) => Promise<RestoreOutcome>

/** The body, for the check and for OpenAPI. It may be missing. */
export const RESET_SCHEMA = {
  type: 'object',
  required: [],
  additionalProperties: false,
  properties: { dryRun: RESTORE_SCHEMA.properties.dryRun },
  examples: [{ dryRun: true }],
} as const satisfies JsonObject

/** POST to `/admin/reset`. */
export async function resetAll(ctx: Context, reset: Reset): Promise<void> {
  if (ctx.querystring !== '') throw new Refusal('Invalid', 'A reset takes no parameters; dryRun is in its body.')
  const isDryRun = hasBody(ctx.headers) && (await isDryRunOf(ctx))
  sendRestored(ctx, await reset(authorOf(ctx), isDryRun), isDryRun)
}

async function isDryRunOf(ctx: Context): Promise<boolean> {
  const source = { headers: ctx.headers, bytes: async () => bodyOf(ctx) }
  const { json } = await readBody(source, [JSON_TYPE], DEFAULT_ITEM_VALUES)
  return checkedRequest(json, RESET_SCHEMA).dryRun === true
}
