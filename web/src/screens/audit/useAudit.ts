import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call, send } from "../../api/call";
import type { AuditRecord } from "../../lib/audit";

/** What is looked for. */
export interface Wanted {
  readonly who: string;
  readonly action: string;
  /** Milliseconds since 1970; 0: all. */
  readonly since: number;
}

const PATH = "/api/v1/audit";
/** The most that one answer has. */
const PIECE = 1_000;

async function piece(wanted: Wanted, after: string | undefined, signal?: AbortSignal) {
  const { who, action, since } = wanted;
  const query = {
    limit: PIECE,
    ...(after === undefined ? {} : { after }),
    ...(who === "" ? {} : { who }),
    ...(action === "" ? {} : { action }),
    ...(since === 0 ? {} : { since_ms: since }),
  };
  return (await send(call("get", PATH, { params: { query } }), signal)).data;
}

/**
 * The log piece by piece, from the oldest on. Whoever may not read it asks for nothing: each refusal would be a record
 * of the log, which is a change, which is told, and asked for again.
 */
export function useAudit(wanted: Wanted) {
  const read = useInfiniteQuery({
    queryKey: [PATH, wanted],
    queryFn: ({ pageParam, signal }) => piece(wanted, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const records = useMemo(() => read.data?.pages.flatMap(({ items }) => items) ?? [], [read.data]);
  return { ...read, records };
}

/** So many records are saved in one file, at most. */
export const MOST_SAVED = 100_000;

/** Reads all that is wanted, for a file; `isCut`: there is more. */
export async function readAll(wanted: Wanted): Promise<{ records: AuditRecord[]; isCut: boolean }> {
  const records: AuditRecord[] = [];
  let after: string | undefined;
  do {
    const { items, next } = await piece(wanted, after);
    records.push(...items);
    after = next ?? undefined;
  } while (after !== undefined && records.length < MOST_SAVED);
  return { records, isCut: after !== undefined };
}
