// Events that were read and events that were heard, as one list.

interface Found {
  readonly id: string;
  readonly at_ms: number;
}

/** Each event once, the newest first; of one moment the later id first. */
export function mergeEvents<E extends Found>(heard: readonly E[], read: readonly E[]): E[] {
  const byId = new Map<string, E>();
  for (const event of [...read, ...heard]) byId.set(event.id, event);
  return [...byId.values()].sort((a, b) => b.at_ms - a.at_ms || (a.id < b.id ? 1 : -1));
}
