// What happens while one looks: the API tells of what kinds of things some were changed, and those are read again at
// once. Where it does not tell, everything is read again every few seconds.
import { useQueryClient } from "@tanstack/react-query";
import type { Query, QueryClient } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import type { components } from "./schema";
import { noteChange, setTold } from "./fresh";
import { openStream } from "./stream";

export type Event = components["schemas"]["Event"];

/** So often what was changed is read again, at most: a busy cluster changes something all the time. */
const SETTLE_MS = 1_000;
/** So many events are kept in the page. */
const MOST_EVENTS = 1_000;

let isLive = false;
const listeners = new Set<() => void>();

function setLive(live: boolean): void {
  isLive = live;
  setTold(live);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Does the API tell what is changed? */
export function useIsLive(): boolean {
  return useSyncExternalStore(subscribe, () => isLive);
}

/** What is made of things of many kinds. */
const MADE_OF_ALL: readonly string[] = ["health", "pools", "jobs", "attachment", "iscsi-attachment"];

/** What stands at such a part of an address is told of as a change of another kind. */
const TOLD_AS: Readonly<Record<string, string>> = { links: "health" };
/** What names things of another kind: who may log in where stands in the record of that. */
const NAMES: Readonly<Record<string, string>> = { hosts: "subsystems", initiators: "targets", tenants: "volumes" };

/** Whether what was read by this address is one of these kinds of things, or is made of them. */
function isOf(kinds: ReadonlySet<string>, query: Query): boolean {
  const path = String(query.queryKey[0]);
  const parts = path.split("/");
  const isMadeOfAll = MADE_OF_ALL.some((part) => parts.includes(part));
  return isMadeOfAll || parts.some((part) => kinds.has(TOLD_AS[part] ?? part) || kinds.has(NAMES[part] ?? part));
}

function refresher(queries: QueryClient): (kinds: readonly string[]) => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let waiting = new Set<string>();
  let isAll = false;
  const refresh = () => {
    const kinds = waiting;
    const all = isAll;
    timer = undefined;
    waiting = new Set();
    isAll = false;
    void queries.invalidateQueries({ predicate: (query) => all || isOf(kinds, query) });
  };
  return (kinds) => {
    // The first message of a stream names nothing: what was changed before it is not known.
    isAll ||= kinds.length === 0;
    for (const kind of kinds) waiting.add(kind);
    timer ??= setTimeout(refresh, SETTLE_MS);
  };
}

/** Reads what is shown again whenever it is changed. */
export function useChanges(enabled: boolean): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (!enabled) return;
    const refresh = refresher(queries);
    const heard = (data: unknown) => {
      noteChange();
      refresh((data as components["schemas"]["Changed"]).kinds);
    };
    return openStream("/api/v1/changes/watch", { heard, isOpen: setLive });
  }, [enabled, queries]);
}

/** What has happened since this is shown, the newest first. */
export function useEvents(): readonly Event[] {
  const [events, setEvents] = useState<readonly Event[]>([]);
  useEffect(() => {
    const heard = (data: unknown) => setEvents((before) => [data as Event, ...before].slice(0, MOST_EVENTS));
    return openStream("/api/v1/events/watch", { heard });
  }, []);
  return events;
}
