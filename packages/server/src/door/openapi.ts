// Makes the OpenAPI 3.1 document of a door from its table of routes, so that document and routes cannot differ. Pure.
import { z } from 'zod'
import { FAULT_TEXT } from './answer.ts'
import { EVENTS } from './events.ts'
import { LINES } from './lines.ts'
import { refusalSchema } from './refusal.ts'
import { UI_CHUNKS } from './ui-chunks.ts'
import { route, type AnswerShape, type Route, type RouteAccess } from './route.ts'

type JsonObject = Record<string, unknown>
type Facts = { readonly title: string; readonly version: string }

const REFUSAL = { $ref: '#/components/schemas/Error' }

export const openapiSchema = z.looseObject({ openapi: z.literal('3.1.0'), paths: z.looseObject({}) })

export function openapiOf(routes: readonly Route[], { title, version }: Facts): JsonObject {
  const paths: Record<string, JsonObject> = {}
  for (const entry of routes) {
    const path = entry.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [entry.method.toLowerCase()]: operationOf(entry) }
  }
  return {
    openapi: '3.1.0',
    info: { title, version },
    paths,
    components: {
      schemas: { Error: schemaOf(refusalSchema) },
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key: fl_…' },
        token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'A token of a user.' },
      },
    },
  }
}

/** Adds a route that answers with the document of all routes, itself included. */
export function withOpenapi(
  routes: readonly Route[],
  { access, ...facts }: Facts & Pick<Route, 'access'>,
): Route[] {
  const all: Route[] = [
    ...routes,
    route({
      method: 'GET',
      path: '/v1/openapi.json',
      summary: 'This document.',
      access,
      answers: { 200: { means: 'The OpenAPI 3.1 document of this port.', json: openapiSchema } },
      handle: () => ({ status: 200, body: document }),
    }),
  ]
  const document = openapiOf(all, facts)
  return all
}

function operationOf({
  summary,
  access,
  params,
  query,
  headers,
  body,
  answers,
  saysFaultsInText,
  isBodyOptional = false,
}: Route): JsonObject {
  const parameters = [
    ...parametersOf('path', params),
    ...parametersOf('query', query),
    ...parametersOf('header', headers),
  ]
  const shapes = Object.entries(answers).map(([status, shape]) => [status, answerOf(shape)])
  const refused = {
    description: 'Refused or failed.',
    content: saysFaultsInText
      ? { [FAULT_TEXT]: { schema: { type: 'string' } } }
      : { 'application/json': { schema: REFUSAL } },
  }
  return {
    summary,
    'x-fleetline-audience': access.audience,
    ...securityOf(access),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: !isBodyOptional,
            content: { 'application/json': { schema: schemaOf(body, 'input') } },
          },
        }
      : {}),
    responses: { ...Object.fromEntries(shapes), default: refused },
  }
}

function securityOf(access: RouteAccess): JsonObject {
  if (access.audience === 'probe') return {}
  if (access.audience !== 'client') return { 'x-fleetline-scope': access.scope, security: [{ key: [] }] }
  const { scope, right } = access
  return { 'x-fleetline-scope': scope, 'x-fleetline-right': right, security: [{ key: [] }, { token: [] }] }
}

function parametersOf(place: 'path' | 'query' | 'header', schema: z.ZodType | undefined): JsonObject[] {
  if (!schema) return []
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as {
    properties?: Record<string, JsonObject>
    required?: string[]
  }
  return Object.entries(properties).map(([name, shape]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: shape,
  }))
}

function answerOf(shape: AnswerShape): JsonObject {
  return { description: shape.means, ...('nothing' in shape ? {} : { content: contentOf(shape) }) }
}

function contentOf(shape: Exclude<AnswerShape, { readonly nothing: true }>): JsonObject {
  if ('json' in shape) return { 'application/json': { schema: schemaOf(shape.json) } }
  if ('text' in shape) return { [shape.text]: { schema: { type: 'string' } } }
  // OpenAPI 3.1 cannot describe a stream, so the schema is that of one line, or of one event's data.
  if ('lines' in shape) return { [LINES.contentType]: { schema: schemaOf(shape.lines) } }
  if ('chunks' in shape) return { [UI_CHUNKS.contentType]: { schema: schemaOf(shape.chunks) } }
  return { [EVENTS.contentType]: { schema: schemaOf('events' in shape ? shape.events : shape.agUiEvents) } }
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output' = 'output'): JsonObject {
  const { $schema: _, ...shape } = z.toJSONSchema(schema, { io })
  return shape
}
