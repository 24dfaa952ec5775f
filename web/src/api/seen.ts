// What a change is meant for: a thing as it was seen, by its entity tag (`If-Match`). Where somebody was faster the API
// does nothing (412): whoever wanted the change sees what has become another, and decides anew.
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { differencesOf } from "../lib/differences";
import type { Difference } from "../lib/differences";
import { send } from "./call";
import type { Answer, Paths, Result } from "./call";
import { asProblem } from "./problem";
import { got, useFirst, useThing } from "./queries";
import type { Query } from "./queries";

export interface Seen {
  /** Of what was seen; undefined: it is being read, and nothing can be done yet. */
  readonly etag: string | undefined;
  /** Why it cannot be read. */
  readonly error: Error | null;
  /** What has become another since it was seen; undefined: nobody has looked. */
  readonly changes: readonly Difference[] | undefined;
  /** Looks at what is there now. */
  readonly look: () => Promise<void>;
  /** From now on what is there now is what was seen. */
  readonly accept: () => void;
}

interface Options<T> {
  /** What is shown where the change begins, where that has its tag; else it is read. */
  readonly shown?: Answer<T> | undefined;
  readonly enabled?: boolean;
}

/** What could not be read is read again after so long. */
const AGAIN_MS = 5_000;

/** Was something refused because it has become another since it was seen? */
export function isOvertaken(error: unknown): boolean {
  return asProblem(error).status === 412;
}

/** What was seen first, or accepted since, and what is there by now. */
function useHeld<T>(first: T | undefined, unread: Error | null, readNow: () => Promise<T>) {
  const [accepted, setAccepted] = useState<T>();
  const [now, setNow] = useState<T>();
  const [failure, setFailure] = useState<Error | null>(null);
  const held = accepted ?? first;
  const look = async () => {
    setNow(undefined);
    setFailure(null);
    try {
      const found = await readNow();
      setNow(() => found);
    } catch (error) {
      setFailure(asProblem(error));
    }
  };
  const accept = () => {
    setAccepted(() => now);
    setNow(undefined);
  };
  return { held, now, error: failure ?? (held === undefined ? unread : null), look, accept };
}

/** The thing at this path, as it was when this was asked for first. */
export function useSeen<P extends Paths<"get">>(
  path: P,
  inPath: Query = {},
  { shown, enabled = true }: Options<Result<"get", P>> = {},
): Seen {
  const tagged = shown?.etag === undefined ? undefined : shown;
  const read = useThing(path, inPath, { enabled: enabled && tagged === undefined });
  // What is left of an earlier dialog is not what is seen now, also where it cannot be read any more.
  const isNew = !read.isError && (read.isFetchedAfterMount || !read.isStale);
  const first = useFirst(tagged ?? (isNew ? read.data : undefined));
  const { held, now, ...rest } = useHeld(first, read.error, () => send(got(path, inPath, {})));
  return { ...rest, etag: held?.etag, changes: now === undefined ? undefined : differencesOf(held?.data, now.data) };
}

export interface SeenAll extends Seen {
  /** One of them. */
  readonly of: (name: string) => Pick<Seen, "etag">;
}

/**
 * Several things of one kind, as they were when this was asked for first. What has become another is told with the name of whose it is.
 * Whoever has changed one of them leaves it out of `names` from then on: it is another by that.
 */
export function useSeenAll<P extends Paths<"get">>(path: P, parameter: string, names: readonly string[]): SeenAll {
  type Found = ReadonlyMap<string, Answer<Result<"get", P>>>;
  // One after the other: the API takes few requests of one asker at once.
  const readNow = async (signal?: AbortSignal): Promise<Found> => {
    const found = new Map<string, Answer<Result<"get", P>>>();
    for (const name of names) found.set(name, await send(got(path, { [parameter]: name }, {}), signal));
    return found;
  };
  // A key of its own: nothing is left of an earlier dialog, and what was read is not read again.
  const read = useQuery({
    queryKey: ["seen", path, useId()],
    queryFn: ({ signal }) => readNow(signal),
    enabled: ({ state }) => state.data === undefined,
    refetchInterval: AGAIN_MS,
    gcTime: 0,
  });
  const { held, now, ...rest } = useHeld(useFirst(read.data), read.error, readNow);
  const etags = names.map((name) => held?.get(name)?.etag);
  return {
    ...rest,
    etag: etags.includes(undefined) ? undefined : etags.join(", "),
    changes: now === undefined ? undefined : names.flatMap((name) => differencesOfOne(name, held, now)),
    of: (name) => ({ etag: held?.get(name)?.etag }),
  };
}

function differencesOfOne<T>(
  name: string,
  from: ReadonlyMap<string, Answer<T>> | undefined,
  to: ReadonlyMap<string, Answer<T>>,
): Difference[] {
  const differences = differencesOf(from?.get(name)?.data, to.get(name)?.data);
  return differences.map((one) => ({ ...one, field: `${name} ${one.field}` }));
}

/** The header by which nothing is changed but what was seen. */
export function ifMatch({ etag }: Pick<Seen, "etag">): { "If-Match": string } {
  return { "If-Match": etag ?? "" };
}
