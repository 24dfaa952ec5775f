// A stream of server-sent events of the API, which is opened again whenever it ends.
import { MessageReader } from "../lib/sse";
import { identity } from "./call";

const FIRST_REST_MS = 500;
const LONGEST_REST_MS = 30_000;

type End = "no-such-path" | "closed";

export interface Listener {
  /** The stream is open, or is not any more. */
  readonly isOpen?: (open: boolean) => void;
  readonly heard: (data: unknown) => void;
}

async function listen(address: string, last: { id: string }, to: Listener, signal: AbortSignal): Promise<End> {
  const since: Record<string, string> = last.id === "" ? {} : { "Last-Event-ID": last.id };
  const headers = { Accept: "text/event-stream", ...identity(), ...since };
  const response = await fetch(address, { headers, signal, cache: "no-store" });
  if (response.status === 404 || response.status === 405) return "no-such-path";
  if (!response.ok || response.body === null) return "closed";
  to.isOpen?.(true);
  const reader = new MessageReader(last.id);
  const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) return "closed";
    for (const message of reader.push(value)) {
      last.id = message.id;
      to.heard(JSON.parse(message.data));
    }
  }
}

function rest(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function listenAlways(address: string, to: Listener, signal: AbortSignal): Promise<void> {
  const last = { id: "" };
  let wait = FIRST_REST_MS;
  while (!signal.aborted) {
    const began = Date.now();
    const end = await listen(address, last, to, signal).catch((): End => "closed");
    to.isOpen?.(false);
    // A node that does not know the path (an older one) will not learn it.
    if (end === "no-such-path") return;
    wait = Date.now() - began > LONGEST_REST_MS ? FIRST_REST_MS : Math.min(wait * 2, LONGEST_REST_MS);
    await rest(wait, signal);
  }
}

/**
 * Listens while the page is seen, until the function that is returned is called. A browser has six connections to a
 * node by HTTP/1.1, for all its tabs: those in the background give theirs back.
 */
export function openStream(address: string, to: Listener): () => void {
  let end: AbortController | undefined;
  const follow = () => {
    if (document.visibilityState === "hidden") {
      end?.abort();
      end = undefined;
    } else if (end === undefined) {
      end = new AbortController();
      void listenAlways(address, to, end.signal);
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  return () => {
    document.removeEventListener("visibilitychange", follow);
    end?.abort();
  };
}
