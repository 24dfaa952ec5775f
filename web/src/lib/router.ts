// Places are in the address behind `#`, so that a node needs to serve one page only, whatever is linked to.
import { useSyncExternalStore } from "react";

export interface Place {
  /** What the address names, from the outside in: `["volumes", "db-1"]`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // A person typed a lone `%`: take it as it is.
    return part;
  }
}

export function parsePlace(hash: string): Place {
  const text = hash.replace(/^#?\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1));
  return {
    path: path
      .split("/")
      .filter((part) => part !== "")
      .map(decode),
    query,
  };
}

/** The address of a place, for a link's `href`. */
export function placeHref(path: readonly string[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export function goTo(path: readonly string[], query: Record<string, string> = {}): void {
  window.location.hash = placeHref(path, query);
}

/** Changes the query of where one is, without a step in the browser's history. */
export function replaceQuery(change: Record<string, string | undefined>): void {
  const { path, query } = parsePlace(window.location.hash);
  for (const [key, value] of Object.entries(change)) {
    if (value === undefined || value === "") query.delete(key);
    else query.set(key, value);
  }
  window.history.replaceState(null, "", placeHref(path, Object.fromEntries(query)));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

function subscribe(changed: () => void): () => void {
  window.addEventListener("hashchange", changed);
  return () => window.removeEventListener("hashchange", changed);
}

export function usePlace(): Place {
  return parsePlace(useSyncExternalStore(subscribe, () => window.location.hash));
}
