// Reading from the API: everything that is shown is read again every few seconds, and at once after an action.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { call, send } from "./call";
import { useIsLive } from "./live";
import type { Answer, Call, Paths, Result } from "./call";
import { asProblem } from "./problem";

/** How often what is shown is read again where nobody tells of changes, and where somebody does. */
const REFRESH_MS = 5_000;
const REFRESH_LIVE_MS = 30_000;
/** Lists are dearer. */
const REFRESH_LIST_LIVE_MS = 60_000;
/** The most items of one answer that the API gives. */
const PIECE = 1_000;

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** Reading as a call. */
export function got<P extends Paths<"get">>(path: P, inPath: Query, query: Query): Call<Result<"get", P>> {
  // The hooks below are typed by path; parameters are checked where they are put together, in the callers' types.
  return call("get", path, { params: { path: inPath, query } } as never);
}

function useRefresh(): number {
  return useIsLive() ? REFRESH_LIVE_MS : REFRESH_MS;
}

/** The first value that there was, whatever comes later: what a dialog has shown is what its change is meant for. */
export function useFirst<T>(value: T | undefined): T | undefined {
  const [first, setFirst] = useState(value);
  if (first === undefined && value !== undefined) setFirst(value);
  return first ?? value;
}

/** One thing, with its entity tag. What is dear and changes seldom is read again after `everyMs` alone. */
export function useThing<P extends Paths<"get">>(
  path: P,
  inPath: Query = {},
  options: { query?: Query; enabled?: boolean; everyMs?: number } = {},
): UseQueryResult<Answer<Result<"get", P>>> {
  const asked = got(path, inPath, options.query ?? {});
  const refresh = useRefresh();
  return useQuery({
    queryKey: [path, asked.address],
    queryFn: ({ signal }) => send(asked, signal),
    enabled: options.enabled ?? true,
    refetchInterval: options.everyMs ?? refresh,
  });
}

async function sendOrNone<T>(asked: Call<T>, signal: AbortSignal): Promise<Answer<T | null>> {
  try {
    return await send(asked, signal);
  } catch (error) {
    if (asProblem(error).status === 404) return { data: null, etag: undefined };
    throw error;
  }
}

/** One thing that may well not be there: null then, which stays known while it is asked for again. */
export function useThingOrNone<P extends Paths<"get">>(
  path: P,
  inPath: Query,
  enabled = true,
): UseQueryResult<Answer<Result<"get", P> | null>> {
  const asked = got(path, inPath, {});
  const refresh = useRefresh();
  return useQuery({
    queryKey: [path, asked.address, "or none"],
    queryFn: ({ signal }) => sendOrNone(asked, signal),
    enabled,
    refetchInterval: refresh,
  });
}

interface Piece<T> {
  readonly items: readonly T[];
  readonly next?: string | null;
}
type Item<P extends Paths<"get">> = Result<"get", P> extends { items: (infer T)[] } ? T : never;

export interface List<T> {
  readonly items: readonly T[];
  readonly isLoading: boolean;
  readonly error: Error | null;
}

/** The whole of a list, piece by piece. A list of many pieces is read again less often. */
export function useList<P extends Paths<"get">>(
  path: P,
  inPath: Query = {},
  query: Query = {},
  enabled = true,
): List<Item<P>> {
  const first = got(path, inPath, { ...query, limit: PIECE });
  const refresh = useIsLive() ? REFRESH_LIST_LIVE_MS : REFRESH_MS;
  const read = useInfiniteQuery({
    queryKey: [path, first.address, "list"],
    queryFn: async ({ pageParam, signal }) => {
      const asked = got(path, inPath, { ...query, limit: PIECE, after: pageParam });
      return (await send(asked, signal)).data as unknown as Piece<Item<P>>;
    },
    enabled,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: (state) => refresh * Math.max(1, state.state.data?.pages.length ?? 1),
  });
  const { hasNextPage, isFetching, fetchNextPage } = read;
  const wantsMore = hasNextPage && !isFetching && !read.isError;
  useEffect(() => {
    if (wantsMore) void fetchNextPage();
  }, [wantsMore, fetchNextPage]);
  const items = useMemo(() => read.data?.pages.flatMap((piece) => piece.items) ?? [], [read.data]);
  return { items, isLoading: read.isLoading, error: read.error };
}
