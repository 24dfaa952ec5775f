// A file as the body of a call. `fetch` does not tell how far it is; XMLHttpRequest does.
import type { Answer, Call } from "./call";
import { identity } from "./call";
import { problemOf, ProblemError } from "./problem";

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Sends the file. Throws a ProblemError. */
export function upload<T>(
  call: Call<T>,
  file: Blob,
  tell: (sentBytes: number) => void,
  signal: AbortSignal,
): Promise<Answer<T>> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const lost = (why: string) => reject(new ProblemError(0, "unreachable", "", why));
    request.open(call.method.toUpperCase(), call.address);
    const headers = { Accept: "application/json", "Content-Type": "application/octet-stream" };
    for (const [name, value] of Object.entries({ ...headers, ...identity(), ...call.headers })) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = ({ loaded }) => tell(loaded);
    request.onload = () => {
      const content = parse(request.responseText);
      if (request.status < 200 || request.status >= 300) reject(problemOf(request.status, content));
      else resolve({ data: content as T, etag: request.getResponseHeader("ETag") ?? undefined });
    };
    request.onerror = () => lost("the connection was lost");
    request.onabort = () => lost("it was cancelled");
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
