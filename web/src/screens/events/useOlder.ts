import { useState } from "react";
import type { Event } from "../../api/live";
import { send } from "../../api/call";
import { asProblem } from "../../api/problem";
import { got } from "../../api/queries";

/** So many are read at a time. */
const PIECE = 1_000;
/** More than these are not kept in the page. */
const MOST = 20_000;

/**
 * Events that are older than the newest ones, a piece each time that somebody asks. What was shown then is kept with
 * them: the newest ones move on, and would leave a gap behind them.
 *
 * `next`: behind what the newest ones end; null: there are no older ones.
 */
export function useOlder(next: string | null | undefined) {
  const [kept, setKept] = useState<readonly Event[]>([]);
  const [behind, setBehind] = useState<string | null>();
  const [isReading, setReading] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const after = behind === undefined ? next : behind;
  const hasMore = after != null && kept.length < MOST;
  const read = async (shown: readonly Event[]) => {
    if (after == null || !hasMore) return;
    setReading(true);
    setError(null);
    try {
      const piece = (await send(got("/api/v1/events", {}, { limit: PIECE, order: "newest", after }))).data;
      setKept([...shown, ...piece.items]);
      setBehind(piece.next ?? null);
    } catch (failure) {
      setError(asProblem(failure));
    }
    setReading(false);
  };
  return { kept, hasMore, isReading, error, read };
}
