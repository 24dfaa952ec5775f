// A node for tests: serves the built page as a node has to (see docs/web.md), and the API as the specification has it.
// Requests that the specification does not allow are refused, so that the page cannot drift from it unseen.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { answer } from "./answers";
import { bodySchema, complaints, match } from "./specification";
import { makeWorld } from "./world";
import type { World } from "./world";

const DIST = process.env.AMITA_DIST ?? fileURLToPath(new URL("../dist", import.meta.url));
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

export interface Mock {
  readonly address: string;
  readonly world: World;
  /** What was asked, reading left out. */
  readonly changes: Request[];
  /** What the specification has not allowed. */
  readonly refused: string[];
  /** Whoever has no such token is refused; null: nobody is. */
  token: string | null;
  /** What is not to be read: the status and the code that this path answers. */
  readonly failing: Map<string, readonly [number, string]>;
  /** How often this path was read. */
  asked(path: string): number;
  tell(stream: "events" | "changes", data: unknown): void;
  listeners(stream: "events" | "changes"): number;
  close(): Promise<void>;
}

export function policyOf(nonce: string): string {
  return [
    "default-src 'self'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

function servePage(path: string, response: ServerResponse): void {
  const file = `${DIST}${path === "/" ? "/index.html" : path}`;
  const isThere = !path.includes("..") && statSync(file, { throwIfNoEntry: false })?.isFile();
  if (!isThere) {
    response.writeHead(404).end();
    return;
  }
  const nonce = randomBytes(16).toString("base64");
  let content: Buffer | string = readFileSync(file);
  if (file.endsWith(".html")) content = content.toString().replaceAll("__AMITA_CSP_NONCE__", nonce);
  response.writeHead(200, {
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Content-Security-Policy": policyOf(nonce),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": file.endsWith(".html") ? "no-store" : "public, max-age=31536000, immutable",
  });
  response.end(content);
}

function problem(response: ServerResponse, status: number, code: string, detail: string): void {
  const body = { type: `https://amita.dev/problems/${code}`, title: `Mock: ${code}.`, status, code, detail };
  response.writeHead(status, { "Content-Type": "application/problem+json" }).end(JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const text = Buffer.concat(pieces).toString();
  if (request.headers["content-type"] === "application/octet-stream") return text;
  return text === "" ? undefined : (JSON.parse(text) as unknown);
}

function tagOf(body: unknown): string {
  const text = body === undefined ? "" : JSON.stringify(body);
  return `"${createHash("sha256").update(text).digest("hex").slice(0, 32)}"`;
}

/** Is what the request names (`If-Match`) what is there? An image, keys and a revert are of what has the path before theirs. */
function isMatched(world: World, path: string, wanted: string | undefined): boolean {
  if (wanted === undefined || wanted === "*") return true;
  const owner = path.replace(/\/(data|keys|snapshots\/[^/]+\/revert)$/, "");
  const found = match("GET", owner);
  if (found === undefined) return true;
  return tagOf(answer(world, "GET", found, new URLSearchParams(), undefined).body) === wanted;
}

export async function startMock(): Promise<Mock> {
  const world = makeWorld();
  const changes: Request[] = [];
  const refused: string[] = [];
  const reads = new Map<string, number>();
  const streams = { events: new Set<ServerResponse>(), changes: new Set<ServerResponse>() };

  const serveApi = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const method = request.method ?? "GET";
    const url = new URL(request.url ?? "/", "http://mock");
    const found = match(method, url.pathname);
    if (found === undefined) {
      refused.push(`${method} ${url.pathname}: there is no such operation`);
      return problem(response, 404, "not-found", "there is nothing at this path");
    }
    if (mock.token !== null && request.headers.authorization !== `Bearer ${mock.token}`) {
      return problem(response, 401, "unauthenticated", "show a certificate of this cluster, or a token");
    }
    const stream = /\/(events|changes)\/watch$/.exec(found.path)?.[1] as "events" | "changes" | undefined;
    if (stream !== undefined) {
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      response.write(stream === "changes" ? 'data: {"kinds":[]}\n\n' : ": here\n\n");
      streams[stream].add(response);
      request.on("close", () => streams[stream].delete(response));
      return;
    }
    const body = await readBody(request);
    const schema = bodySchema(found.operation);
    const wrong = schema === undefined ? [] : complaints(schema, body);
    const known = new Set(
      (found.operation.parameters ?? []).filter((one) => one.in === "query").map(({ name }) => name),
    );
    wrong.push(
      ...[...url.searchParams.keys()].filter((name) => !known.has(name)).map((name) => `unknown parameter ${name}`),
    );
    const wants = (found.operation.parameters ?? []).filter((one) => one.in === "header" && one.required);
    wrong.push(
      ...wants
        .filter(({ name }) => request.headers[name.toLowerCase()] === undefined)
        .map(({ name }) => `no header ${name}`),
    );
    if (method === "GET") reads.set(url.pathname, (reads.get(url.pathname) ?? 0) + 1);
    if (method !== "GET") changes.push({ method, path: url.pathname, headers: request.headers, body });
    if (wrong.length > 0) {
      refused.push(`${method} ${url.pathname}: ${wrong.join(", ")}`);
      return problem(response, 400, "bad-request", wrong.join(", "));
    }
    const failing = method === "GET" ? mock.failing.get(url.pathname) : undefined;
    if (failing !== undefined) return problem(response, ...failing, "it cannot be read");
    if (method !== "GET" && !isMatched(world, url.pathname, request.headers["if-match"])) {
      return problem(response, 412, "changed", "it was changed since; read it again, and decide anew");
    }
    const answered = answer(world, method, found, url.searchParams, body);
    if (answered.problem !== undefined)
      return problem(response, answered.status, answered.problem, answered.detail ?? "");
    const text = answered.body === undefined ? "" : JSON.stringify(answered.body);
    const headers = { "Content-Type": "application/json", ETag: tagOf(answered.body) };
    response.writeHead(answered.status, headers).end(text);
  };

  const server = createServer((request, response) => {
    const path = decodeURI((request.url ?? "/").split("?")[0] ?? "/");
    if (!path.startsWith("/api/")) return servePage(path, response);
    serveApi(request, response).catch((error: unknown) => problem(response, 500, "internal", String(error)));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  const mock: Mock = {
    address: `http://127.0.0.1:${port}`,
    world,
    changes,
    refused,
    token: null,
    failing: new Map(),
    asked: (path) => reads.get(path) ?? 0,
    tell: (stream, data) => streams[stream].forEach((to) => to.write(`id: 1\ndata: ${JSON.stringify(data)}\n\n`)),
    listeners: (stream) => streams[stream].size,
    close: () => new Promise((done) => (server.closeAllConnections(), server.close(() => done()))),
  };
  return mock;
}
