// What the mock knows of the API: the specification that the code of the server makes.
import { readFileSync } from "node:fs";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  example?: unknown;
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
}

interface Content {
  content?: Record<string, { schema?: Schema }>;
}

export interface Operation {
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: Content;
  responses: Record<string, Content>;
}

export interface Specification {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const FILE = process.env.AMITA_OPENAPI ?? new URL("../../docs/api/openapi.json", import.meta.url);

export const specification = JSON.parse(readFileSync(FILE, "utf8")) as Specification;

export function resolve(schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const name = schema.$ref.replace("#/components/schemas/", "");
  const found = specification.components.schemas[name];
  if (found === undefined) throw new Error(`the specification has no schema ${name}`);
  return resolve(found);
}

/** All properties, those of `allOf` too. */
function propertiesOf(schema: Schema): { properties: Record<string, Schema>; required: string[] } {
  const parts = [schema, ...(schema.allOf ?? [])].map(resolve);
  const inner = parts.filter((part) => part !== schema).map(propertiesOf);
  return {
    properties: Object.assign({}, schema.properties, ...inner.map(({ properties }) => properties)) as Record<
      string,
      Schema
    >,
    required: [...(schema.required ?? []), ...inner.flatMap(({ required }) => required)],
  };
}

/** A body that this schema allows: examples where there are any. */
export function sample(given: Schema, depth = 0): unknown {
  const schema = resolve(given);
  if (schema.example !== undefined) return schema.example;
  if (schema.enum !== undefined) return schema.enum[0];
  const choice = (schema.oneOf ?? schema.anyOf)?.find((one) => one.type !== "null");
  if (choice !== undefined) return depth > 6 ? null : sample(choice, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (type === "string") return "text";
  if (type === "integer" || type === "number") return 1;
  if (type === "boolean") return false;
  if (type === "array") return depth > 6 || schema.items === undefined ? [] : [sample(schema.items, depth + 1)];
  const { properties } = propertiesOf(schema);
  return Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, sample(inner, depth + 1)]));
}

/** What is wrong with a request's body; empty: nothing. */
export function complaints(given: Schema, body: unknown): string[] {
  const schema = resolve(given);
  if (schema.properties === undefined && schema.allOf === undefined) return [];
  if (typeof body !== "object" || body === null) return ["the body is no object"];
  const { properties, required } = propertiesOf(schema);
  const unknown = Object.keys(body).filter((name) => !(name in properties));
  const missing = required.filter((name) => !(name in body));
  return [...unknown.map((name) => `unknown field ${name}`), ...missing.map((name) => `no field ${name}`)];
}

export interface Match {
  readonly path: string;
  readonly operation: Operation;
  readonly values: Readonly<Record<string, string>>;
}

/** The operation that a request asks for. */
export function match(method: string, address: string): Match | undefined {
  const parts = address.split("/");
  for (const [path, operations] of Object.entries(specification.paths)) {
    const operation = operations[method.toLowerCase()];
    const wanted = path.split("/");
    if (operation === undefined || wanted.length !== parts.length) continue;
    const values: Record<string, string> = {};
    const fits = wanted.every((part, index) => {
      const is = parts[index] ?? "";
      if (!part.startsWith("{")) return part === is;
      values[part.slice(1, -1)] = decodeURIComponent(is);
      return true;
    });
    if (fits) return { path, operation, values };
  }
  return undefined;
}

export function answerOf(operation: Operation): { status: number; body: unknown } {
  const [status, response] = Object.entries(operation.responses).find(([code]) => code.startsWith("2")) ?? ["204", {}];
  const schema = (response as Content).content?.["application/json"]?.schema;
  return { status: Number(status), body: schema === undefined ? undefined : sample(schema) };
}

export function bodySchema(operation: Operation): Schema | undefined {
  return operation.requestBody?.content?.["application/json"]?.schema;
}
