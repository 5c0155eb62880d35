import type { Scheme } from '../../access/access.ts'
import { neededRole } from '../../access/roles.ts'
import { isObject, type JsonObject, type JsonValue } from '../../json/value.ts'
import { JSON_TYPE } from '../media-types.ts'
import { CREDENTIALS } from '../tokens.ts'
import { pathItem } from './operations.ts'
import { type Components, content } from './references.ts'
import { accessResponses, problems } from './responses.ts'

/** The ways to send the credentials of each scheme. */
const SECURITY: Readonly<Record<Scheme, Components>> = {
  token: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
  basic: { basic: { type: 'http', scheme: 'basic' } },
  apikey: {
    apikey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' },
    apikeyAsBearer: { type: 'http', scheme: 'bearer', description: 'An API key in the Authorization header.' },
  },
}

function securityOf(schemes: readonly Scheme[]): Components {
  return Object.assign({}, ...schemes.map((scheme) => SECURITY[scheme]))
}

const TOKEN = {
  type: 'object',
  required: ['access_token', 'token_type', 'expires_in'],
  properties: {
    access_token: { type: 'string' },
    token_type: { type: 'string', enum: ['Bearer'] },
    expires_in: { type: 'integer', description: 'Seconds.' },
  },
}

/** `/token` and `/logout`, only with the scheme `token`. */
export const tokenPaths: JsonObject = {
  '/token': pathItem('/token', {
    tag: 'Service',
    name: 'Token',
    operations: {
      POST: {
        summary: 'A token for a name and a password',
        description:
          'With `grant_type=client_credentials`, an OAuth 2 client may send its id and secret as Basic credentials instead of in the body.',
        requestBody: {
          required: true,
          content: content(CREDENTIALS, JSON_TYPE, 'application/x-www-form-urlencoded', 'multipart/form-data'),
        },
        responses: {
          200: { description: 'The token.', headers: ['Cache-Control'], content: content(TOKEN, JSON_TYPE) },
        },
        problems: [400, 401, 413, 415, 429],
      },
    },
  }),
  '/logout': pathItem('/logout', {
    tag: 'Service',
    name: 'Logout',
    operations: {
      POST: {
        summary: 'Revokes the token of the request',
        responses: { 204: { description: 'The token was revoked.' } },
        problems: [400],
      },
    },
  }),
}

/** The requirements of an operation that has none of its own: any of the ways, none if authentication is off. */
export function requirements(schemes: readonly Scheme[]): readonly JsonObject[] {
  return Object.keys(securityOf(schemes)).map((name) => ({ [name]: [] }))
}

/** Adds the roles to the paths, and says what is public, unless authentication is off. */
export function securedPaths(paths: JsonObject, schemes: readonly Scheme[]): JsonObject {
  if (schemes.length === 0) return paths
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => [path, isObject(item) ? securedItem(path, item) : item]),
  )
}

/** Adds the components for authentication, unless it is off. */
export function securedComponents(
  components: { readonly responses: Components },
  schemes: readonly Scheme[],
): Readonly<Record<string, Components>> {
  if (schemes.length === 0) return components
  return {
    responses: { ...components.responses, ...accessResponses },
    securitySchemes: securityOf(schemes),
  }
}

function securedItem(path: string, item: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(item).map(([method, operation]): [string, JsonValue] => {
      const role = neededRole(method.toUpperCase(), path)
      if (!isObject(operation)) return [method, operation]
      if (role === undefined) return [method, { ...operation, security: [] }]
      return [
        method,
        {
          ...operation,
          description: `${operation.description ?? ''}\n\nNeeds the role \`${role}\`.`.trim(),
          responses: { ...(operation.responses as JsonObject), ...problems(401, 403, 429) },
        },
      ]
    }),
  )
}
