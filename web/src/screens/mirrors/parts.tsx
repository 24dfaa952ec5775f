// What the list and the page of a mirror both show.
import { useThing } from "../../api/queries";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Meter } from "../../components/Meter";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatBytes, formatDuration } from "../../lib/format";
import { factsOf, lagOf, passSums } from "../../lib/mirrors";
import type { Fact, Mirror, MirrorFact, Pass } from "../../lib/mirrors";

const ROLES: Readonly<Record<string, readonly [Tone, Word]>> = {
  primary: ["good", "mirror.primary"],
  demoting: ["busy", "mirror.demoting"],
  secondary: ["plain", "mirror.secondary"],
  promoting: ["busy", "mirror.promoting"],
  deposed: ["bad", "mirror.deposed"],
};

const FACTS: Readonly<Record<MirrorFact, readonly [Tone, Word]>> = {
  "mirror-deposed": ["bad", "mirror.fact.deposed"],
  "mirror-split": ["bad", "mirror.fact.split"],
  "mirror-stalled": ["bad", "mirror.fact.stalled"],
  "mirror-unheard": ["bad", "mirror.fact.unheard"],
  "mirror-late": ["odd", "mirror.fact.late"],
};

/** A role of a later version has no word here. */
export function roleText(role: string, handed: boolean, t: Translate): string {
  const word = ROLES[role]?.[1];
  const text = word === undefined ? role : t(word);
  return handed ? t("mirror.handed", { role: text }) : text;
}

export function Role({ role, handed }: { role: string; handed: boolean }) {
  const { t } = useSpeech();
  return <Mark tone={ROLES[role]?.[0] ?? "plain"}>{roleText(role, handed, t)}</Mark>;
}

/** What the facts of the cluster say. */
export function useFacts(): readonly Fact[] {
  return useThing("/api/v1/health").data?.data.facts ?? [];
}

export function MirrorState({ mirror, facts }: { mirror: Mirror; facts: readonly Fact[] }) {
  const { t } = useSpeech();
  const { name, paused, peer, pass } = mirror;
  const told = factsOf(facts, name);
  return (
    <span className="labels">
      {told.map((fact) => (
        <Mark key={fact.name} tone={FACTS[fact.name][0]}>
          {t(FACTS[fact.name][1])}
        </Mark>
      ))}
      {paused == null ? null : <Mark tone="odd">{t("mirror.paused")}</Mark>}
      {peer.cluster == null ? <Mark tone="odd">{t("mirror.alone")}</Mark> : null}
      {pass == null || paused != null ? null : <Mark tone="busy">{t("mirror.brings")}</Mark>}
    </span>
  );
}

export function lagText(mirror: Mirror, t: Translate): string {
  const lag = lagOf(mirror, Date.now() / 1000);
  return lag === undefined ? t("unknown") : formatDuration(lag);
}

export function PassMeter({ pass }: { pass: Pass }) {
  const { t } = useSpeech();
  const { done, total } = passSums(pass);
  return (
    <>
      {t("job.done", { done: formatBytes(done), all: formatBytes(total) })}
      <Meter label={t("mirror.pass")} part={done} whole={total} isFine />
    </>
  );
}
