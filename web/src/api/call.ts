// A call of the API as data: what is sent, and what the dialog shows of it, are one thing.
import { createFinalURL, createQuerySerializer, defaultPathSerializer } from "openapi-fetch";
import type { ParamsOption, RequestBodyOption } from "openapi-fetch";
import type { PathsWithMethod, SuccessResponseJSON } from "openapi-typescript-helpers";
import type { paths } from "./schema";
import { maxAge, noteChange } from "./fresh";
import { problemOf, ProblemError } from "./problem";
import { readToken } from "./token";

export type Method = "get" | "post" | "put" | "patch" | "delete";
export type Paths<M extends Method> = PathsWithMethod<paths, M>;
type Operation<M extends Method, P extends Paths<M>> = M extends keyof paths[P] ? paths[P][M] : never;

export interface Call<T = unknown> {
  readonly method: Method;
  /** The path with its query, percent-encoded. */
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** There is a secret in its body, which stands in no text of the page. */
  readonly isSecret?: boolean;
  /** Never there: it carries the type of the answer. */
  readonly answer?: T;
}

export interface Answer<T> {
  readonly data: T;
  readonly etag: string | undefined;
}

/** What an operation answers when all is well. */
export type Result<M extends Method, P extends Paths<M>> =
  Operation<M, P> extends infer O extends Record<string | number, unknown> ? SuccessResponseJSON<O> : never;

type Given<O> = Omit<ParamsOption<O>, never> & (O extends { requestBody?: unknown } ? RequestBodyOption<O> : unknown);

interface Loose {
  params?: { path?: Record<string, unknown>; query?: Record<string, unknown>; header?: Record<string, unknown> };
  body?: unknown;
}

const writeQuery = createQuerySerializer();

/** A call of an operation of the specification. */
export function call<M extends Method, P extends Paths<M>>(
  method: M,
  path: P,
  given: Given<Operation<M, P>>,
): Call<Result<M, P>> {
  const { params = {}, body } = given as Loose;
  const address = createFinalURL(path as string, {
    baseUrl: "",
    params: { path: params.path, query: params.query },
    querySerializer: writeQuery,
    pathSerializer: defaultPathSerializer,
  });
  const headers = Object.entries(params.header ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return { method, address, headers: Object.fromEntries(headers.map(([name, value]) => [name, String(value)])), body };
}

/** The headers that show who asks. */
export function identity(): Record<string, string> {
  const token = readToken();
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/** What is read by these stands in the audit log: each reader has an answer of their own. */
const LOGGED = /^\/api\/v1\/volumes\/[^/?]+\/(diff|export)(\?|$)/;

/** An answer that others got will do, if it is new enough. A call that says itself what will do is asked. */
function age(call: Call): Record<string, string> {
  const seconds = call.method === "get" && !LOGGED.test(call.address) ? maxAge() : 0;
  return seconds > 0 ? { "Cache-Control": `max-age=${seconds}` } : {};
}

async function readBody(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Makes the call. Throws a ProblemError. */
export async function send<T>(call: Call<T>, signal?: AbortSignal): Promise<Answer<T>> {
  const headers: Record<string, string> = {
    Accept: "application/json",
    ...identity(),
    ...age(call),
    ...call.headers,
  };
  if (call.body !== undefined) headers["Content-Type"] = "application/json";
  const body = call.body === undefined ? undefined : JSON.stringify(call.body);
  const request: RequestInit = { method: call.method.toUpperCase(), headers, cache: "no-store" };
  let response: Response;
  try {
    response = await fetch(call.address, {
      ...request,
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ProblemError(0, "unreachable", "", error instanceof Error ? error.message : String(error));
  }
  const content = await readBody(response);
  if (call.method !== "get") noteChange();
  if (!response.ok) throw problemOf(response.status, content);
  return { data: content as T, etag: response.headers.get("ETag") ?? undefined };
}
