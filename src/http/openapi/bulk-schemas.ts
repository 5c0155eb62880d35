/** Schemas of operations on many items. */
const id = { type: ['string', 'number'] }

export const bulkSchemas = {
  CreatedItems: {
    type: 'object',
    required: ['ids'],
    properties: { ids: { type: 'array', items: id, description: 'In the order of the batch.' } },
  },
  BatchResults: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        description: 'One for each item of the batch, in its order.',
        items: {
          type: 'object',
          required: ['status'],
          properties: {
            status: { enum: ['created', 'rejected'] },
            line: { type: 'integer', minimum: 1, description: 'Of NDJSON and CSV: where the item begins.' },
            id: { ...id, description: 'Of a created item.' },
            problem: { type: 'object', description: 'Of a rejected item: a problem as a response would have it.' },
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
      deleted: { type: 'integer', minimum: 0, description: 'How many items were deleted, or would be.' },
      dryRun: { type: 'boolean' },
      ids: { type: 'array', items: id, description: 'Of the first 1000 of them.' },
    },
  },
} as const
