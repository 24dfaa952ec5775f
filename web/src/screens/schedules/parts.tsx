// What the list and the page of a policy both show.
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatDuration, formatTime } from "../../lib/format";
import { RULES } from "../../lib/policies";
import type { Policy, Rule } from "../../lib/policies";

export const RULE_WORDS: Readonly<Record<Rule, Word>> = {
  last: "policy.keep.last",
  hourly: "policy.keep.hourly",
  daily: "policy.keep.daily",
  weekly: "policy.keep.weekly",
  monthly: "policy.keep.monthly",
  yearly: "policy.keep.yearly",
};

/** The names of volumes by their numbers, which policies know them by. */
export function useVolumeNames(): ReadonlyMap<number, string> {
  const { items } = useList("/api/v1/volumes");
  return useMemo(() => new Map(items.map(({ id, name }) => [id, name])), [items]);
}

/** Which volumes it is for, in a line. */
export function targetText(
  { target }: Pick<Policy, "target">,
  names: ReadonlyMap<number, string>,
  t: Translate,
): string {
  if (target.pool != null) return t("policy.target.pool", { name: target.pool });
  if (target.label != null) return t("policy.target.label", { label: `${target.label.key}=${target.label.value}` });
  const ids = target.volume_ids ?? [];
  return ids.map((id) => names.get(id) ?? t("policy.target.gone", { id })).join(", ");
}

export function keepText({ keep }: Pick<Policy, "keep">, t: Translate): string {
  return RULES.filter((rule) => keep[rule] > 0)
    .map((rule) => `${t(RULE_WORDS[rule])} ${keep[rule]}`)
    .join(", ");
}

export function PolicyState({ policy }: { policy: Policy }) {
  const { t } = useSpeech();
  const { fault, history, late_seconds, paused } = policy;
  const failed = history?.last?.failed ?? 0;
  return (
    <>
      {fault == null ? null : <Mark tone="bad">{t("policy.fault")}</Mark>}
      {paused ? <Mark tone="odd">{t("policy.paused")}</Mark> : null}
      {history?.running ? <Mark tone="busy">{t("policy.running")}</Mark> : null}
      {late_seconds > 0 ? <Mark tone="bad">{t("policy.late", { time: formatDuration(late_seconds) })}</Mark> : null}
      {failed > 0 ? <Mark tone="bad">{t("policy.failed", { count: failed })}</Mark> : null}
    </>
  );
}

/** When it runs next, and in how long that is. */
export function NextRun({ policy }: { policy: Pick<Policy, "next_at"> }) {
  const { t, locale } = useSpeech();
  if (policy.next_at == null) return t("policy.next.never");
  const left = policy.next_at - Date.now() / 1000;
  return (
    <Name
      text={`${formatTime(policy.next_at * 1000, locale)}${left > 0 ? ` (${t("policy.next.in", { time: formatDuration(left) })})` : ""}`}
    />
  );
}
