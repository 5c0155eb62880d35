import type { JsonObject } from '../../json/value.ts'
import { EVENT_PARAMETERS, type EventParameterName } from '../event-parameters.ts'
import { JSON_TYPE, NDJSON_TYPE } from '../media-types.ts'
import { pathItem, type Resource } from './operations.ts'
import { anyObject, content, ref } from './references.ts'

const EVENTS = (Object.keys(EVENT_PARAMETERS) as EventParameterName[]).map((name) => `events.${name}` as const)

const RESTORED = {
  description: 'The changes, also for a dry run.',
  headers: ['Journal-Position'],
  content: content(ref('schemas', 'Restored'), JSON_TYPE),
} as const

/** Only offered with `Api.Reset` or json-server compatibility. */
const RESET: Readonly<Record<string, Resource>> = {
  '/admin/reset': {
    tag: 'Service',
    name: 'Reset',
    operations: {
      POST: {
        summary: 'Return to the first data',
        description:
          'Appends the events that return everything to the first import of the data file, and the next ids that followed it. History is not changed.',
        requestBody: { content: content(ref('schemas', 'Reset'), JSON_TYPE) },
        responses: { 200: RESTORED },
        problems: [400, 409, 413, 415, 422, 503, 504, 507],
      },
    },
  },
}

const RESOURCES: Readonly<Record<string, Resource>> = {
  '/events': {
    tag: 'Journal',
    name: 'Events',
    operations: {
      GET: {
        summary: 'The events, by default oldest first',
        description:
          'A page as `application/json`; all matching events, one per line, as `application/x-ndjson`, with `follow=true` also new ones; all matching events and then new ones as `text/event-stream`, where `Last-Event-ID` resumes.',
        parameters: ['Last-Event-ID', ...EVENTS],
        responses: {
          200: {
            description: 'The matching events. `Link` has the next page, if there is one.',
            headers: ['Cache-Control', 'Link', 'Journal-Position', 'Vary'],
            content: {
              ...content({ type: 'array', items: ref('schemas', 'Event') }, JSON_TYPE),
              ...content({ type: 'string', description: 'An event a line.' }, NDJSON_TYPE),
              ...content(
                { type: 'string', description: 'One event per message, with the position as id.' },
                'text/event-stream',
              ),
            },
          },
        },
        problems: [400, 406, 414, 429, 503],
      },
    },
  },
  '/events/{position}': {
    tag: 'Journal',
    name: 'Event',
    parameters: ['position'],
    operations: {
      GET: {
        summary: 'The event at a position',
        responses: {
          200: {
            description: 'The event.',
            headers: ['Vary'],
            content: content(ref('schemas', 'Event'), JSON_TYPE, NDJSON_TYPE),
          },
        },
        problems: [400, 404, 406, 503],
      },
    },
  },
  '/health': {
    tag: 'Service',
    name: 'Health',
    operations: {
      GET: {
        summary: 'How the service is',
        responses: {
          200: {
            description: '`ok`; or `degraded`, when the data file cannot be kept up to date.',
            headers: ['Cache-Control'],
            content: content(ref('schemas', 'Health'), JSON_TYPE),
          },
          503: {
            description: '`unavailable`: nothing can be written at the moment.',
            headers: ['Cache-Control'],
            content: content(ref('schemas', 'Health'), JSON_TYPE),
          },
        },
      },
    },
  },
  '/metrics': {
    tag: 'Service',
    name: 'Metrics',
    operations: {
      GET: {
        summary: 'Metrics for Prometheus',
        responses: {
          200: {
            description: "Prometheus' text form.",
            headers: ['Cache-Control'],
            content: content({ type: 'string' }, 'text/plain'),
          },
        },
      },
    },
  },
  '/admin/reload': {
    tag: 'Service',
    name: 'Reload',
    operations: {
      POST: {
        summary: 'Import edits of the data file',
        description: 'Edits become events. An invalid file changes nothing.',
        responses: {
          200: {
            description: 'The result of the import.',
            headers: ['Journal-Position'],
            content: content(ref('schemas', 'TakenInEdit'), JSON_TYPE),
          },
        },
        problems: [422, 503, 504, 507],
      },
    },
  },
  '/admin/settings/reload': {
    tag: 'Service',
    name: 'ReloadSettings',
    operations: {
      POST: {
        summary: 'Read users, API keys and schemas again',
        description: 'From where the server read them at the start. With a mistake, the earlier ones stay in use.',
        responses: {
          200: { description: 'What is in use.', content: content(ref('schemas', 'ReloadedSettings'), JSON_TYPE) },
        },
        problems: [422],
      },
    },
  },
  '/admin/snapshot': {
    tag: 'Service',
    name: 'Snapshot',
    operations: {
      POST: {
        summary: 'Write the data file now',
        description: 'Regardless of `DataFile.Write`. Edits are not overwritten.',
        responses: {
          200: {
            description: 'The file shows the state at this position.',
            headers: ['Journal-Position'],
            content: content(ref('schemas', 'Snapshot'), JSON_TYPE),
          },
        },
        problems: [409, 503, 504, 507],
      },
    },
  },
  '/admin/verify': {
    tag: 'Service',
    name: 'Verify',
    operations: {
      POST: {
        summary: 'Check the whole journal',
        description:
          'Frames, checksums, positions and order of all records, while the server runs. A request during a check joins it.',
        responses: {
          200: {
            description: 'Progress, one line at a time; the last line has the result.',
            headers: ['Cache-Control'],
            content: content(ref('schemas', 'Verified'), NDJSON_TYPE),
          },
        },
        problems: [404],
      },
    },
  },
  '/admin/restore': {
    tag: 'Service',
    name: 'Restore',
    operations: {
      POST: {
        summary: 'Bring back what was',
        description:
          'Appends the events that return an item, a collection or everything to an earlier state. History is not changed, and a restore can be reverted.',
        requestBody: { required: true, content: content(ref('schemas', 'Restore'), JSON_TYPE) },
        responses: { 200: RESTORED },
        problems: [400, 409, 413, 415, 422, 503, 504, 507],
      },
    },
  },
  '/openapi.json': {
    tag: 'Service',
    name: 'OpenApi',
    operations: {
      GET: {
        summary: 'This document',
        responses: {
          200: { description: 'OpenAPI 3.1.', content: content(anyObject, JSON_TYPE) },
        },
      },
    },
  },
}

/** All paths that are not under `/api`, without the pages. */
export const servicePaths = pathsOf(RESOURCES)
export const resetPath = pathsOf(RESET)

function pathsOf(resources: Readonly<Record<string, Resource>>): JsonObject {
  return Object.fromEntries(Object.entries(resources).map(([path, resource]) => [path, pathItem(path, resource)]))
}
