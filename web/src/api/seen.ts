// What a change is meant for: a thing as it was seen, by its entity tag (`If-Match`). Where somebody was faster the API
// does nothing (412): whoever wanted the change sees what has become another, and decides anew.
import { useState } from "react";
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

/** Was something refused because it has become another since it was seen? */
export function isOvertaken(error: unknown): boolean {
  return asProblem(error).status === 412;
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
  const [accepted, setAccepted] = useState<Answer<Result<"get", P>>>();
  const [now, setNow] = useState<Answer<Result<"get", P>>>();
  const [failure, setFailure] = useState<Error | null>(null);
  const held = accepted ?? first;
  const look = async () => {
    setNow(undefined);
    setFailure(null);
    try {
      setNow(await send(got(path, inPath, {})));
    } catch (error) {
      setFailure(asProblem(error));
    }
  };
  const accept = () => {
    setAccepted(now);
    setNow(undefined);
  };
  return {
    etag: held?.etag,
    error: failure ?? (held === undefined ? read.error : null),
    changes: now === undefined ? undefined : differencesOf(held?.data, now.data),
    look,
    accept,
  };
}

/** The header by which nothing is changed but what was seen. */
export function ifMatch({ etag }: Seen): { "If-Match": string } {
  return { "If-Match": etag ?? "" };
}
