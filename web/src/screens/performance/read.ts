// The history is read again while it is looked at: the span ends now, whenever that is.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { call, send } from "../../api/call";
import type { Paths, Result } from "../../api/call";
import type { Answer } from "./charts";

/** As often as there is something new, and not more. */
function refresh(seconds: number): number {
  return seconds <= 18_000 ? 10_000 : 60_000;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** What many pages show, the overview first, is shared; of one volume or store nobody else asks, and an answer that is kept takes a place. */
export function sharing({ object }: Query, seconds: number): string {
  return object === "cluster" ? `max-age=${seconds}` : "no-cache";
}

function ask<P extends Paths<"get">>(path: P, query: Query, seconds: number, everyMs = refresh(seconds)) {
  return {
    queryKey: [path, query, seconds],
    queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Result<"get", P>> => {
      // All who look at the same figures ask for the same span: every node is asked for it.
      const every = Math.ceil(everyMs / 1000);
      const to = Math.ceil(Date.now() / 1000 / every) * every;
      const header = { "Cache-Control": sharing(query, every) };
      const asked = call("get", path, {
        params: { path: {}, query: { ...query, from: to - seconds, to }, header },
      } as never);
      return (await send(asked, signal)).data as Result<"get", P>;
    },
    refetchInterval: everyMs,
    placeholderData: keepPreviousData,
  };
}

/** The figures of an object by their names; read again each `everyMs` milliseconds, or as often as there is something new. */
export function useFigures(object: string, metrics: readonly string[], seconds: number, everyMs?: number) {
  return useQueries({
    queries: metrics.map((metric) => ask("/api/v1/history", { object, metric }, seconds, everyMs)),
    combine: (results) => ({
      answers: new Map(results.flatMap(({ data }, at) => (data === undefined ? [] : [[metrics[at]!, data as Answer]]))),
      isLoading: results.some(({ isLoading }) => isLoading),
      error: results.find(({ error }) => error !== null)?.error ?? null,
    }),
  });
}

export function useHeat(object: string, seconds: number) {
  return useQuery(ask("/api/v1/history/heatmap", { object }, seconds));
}

export function useTop(of: string, by: string, seconds: number) {
  return useQuery(ask("/api/v1/history/top", { of, by, limit: 20 }, seconds));
}
