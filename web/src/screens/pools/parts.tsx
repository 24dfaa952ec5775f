// What several screens show of a pool.
import type { components } from "../../api/schema";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Meter } from "../../components/Meter";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatBytes } from "../../lib/format";

export type Pool = components["schemas"]["Pool"];
type Counts = components["schemas"]["GroupCounts"];

const STATES: readonly (readonly [keyof Counts, Word, Tone])[] = [
  ["below", "pool.groups.below", "bad"],
  ["waiting", "pool.groups.waiting", "bad"],
  ["at_min_copies", "pool.groups.at_min_copies", "odd"],
  ["degraded", "pool.groups.degraded", "odd"],
  ["syncing", "pool.groups.syncing", "busy"],
  ["moving", "pool.groups.moving", "busy"],
  ["whole", "pool.groups.whole", "good"],
];

/** How many of a pool's groups are how; a group may be in several states. */
export function GroupStates({ counts }: { counts: Counts }) {
  const { t } = useSpeech();
  return (
    <span className="labels">
      {STATES.filter(([state]) => counts[state] > 0).map(([state, word, tone]) => (
        <Mark key={state} tone={tone}>
          {t(word, { count: counts[state] })}
        </Mark>
      ))}
    </span>
  );
}

/** How many copies there are, and how few let writes go on. */
export function copies(pool: Pool, t: Translate): string {
  if (pool.copies == null || pool.min_copies == null) return t("unknown");
  return t("pool.copies.of", { copies: pool.copies, least: pool.min_copies });
}

export function PoolSpace({ pool }: { pool: Pool }) {
  const { t } = useSpeech();
  return (
    <>
      {t("store.used_of", { used: formatBytes(pool.used_bytes), all: formatBytes(pool.raw_bytes) })}
      <Meter label={t("pool.raw")} part={pool.used_bytes} whole={pool.raw_bytes} />
    </>
  );
}
