import { anyObject, idSchema } from './references.ts'

/** Schemas of operations on many items. */
export const bulkSchemas = {
  NotApplied: {
    type: 'object',
    required: ['applied'],
    properties: { applied: { type: 'boolean', const: false } },
  },
  CreatedItems: {
    type: 'object',
    required: ['ids'],
    properties: { ids: { type: 'array', items: idSchema, description: 'In the order of the batch.' } },
  },
  BatchResults: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        description: 'One for each item of the batch, in order.',
        items: {
          type: 'object',
          required: ['status'],
          properties: {
            status: { type: 'string', enum: ['created', 'replaced', 'duplicate', 'rejected'] },
            line: { type: 'integer', minimum: 1, description: 'For NDJSON and CSV: the line of the item.' },
            id: {
              ...idSchema,
              description: 'Of an item that was not rejected: a duplicate has that of the item that is there.',
            },
            problem: { ...anyObject, description: 'For a rejected item: a problem as in a response.' },
          },
        },
      },
    },
  },
  Replaced: {
    type: 'object',
    required: ['position', 'dryRun', 'events', 'created', 'replaced', 'deleted'],
    properties: {
      position: { type: 'integer', minimum: 0 },
      dryRun: { type: 'boolean' },
      events: { type: 'integer', minimum: 0 },
      created: { type: 'integer', minimum: 0, description: 'Items and single objects.' },
      replaced: { type: 'integer', minimum: 0 },
      deleted: { type: 'integer', minimum: 0 },
    },
  },
  Deleted: {
    type: 'object',
    required: ['deleted', 'dryRun', 'ids'],
    properties: {
      deleted: { type: 'integer', minimum: 0, description: 'Number of items, also for a dry run.' },
      dryRun: { type: 'boolean' },
      ids: { type: 'array', items: idSchema, description: 'The first 1000.' },
    },
  },
} as const
