// How the repository of a policy is verified, and what was found.
import type { ReactNode } from "react";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { isDamaged } from "../../lib/backups";
import type { BackupPolicy, Verification } from "../../lib/backups";
import { formatBytes, formatCount, formatDuration, formatTime } from "../../lib/format";

type Pair = readonly [string, ReactNode];

/** What is named of that which is damaged; further ones are counted. */
const MOST_NAMED = 20;

function Lines({ texts }: { texts: readonly string[] }) {
  return (
    <>
      {texts.slice(0, MOST_NAMED).map((text) => (
        <div key={text}>
          <Name text={text} whole />
        </div>
      ))}
    </>
  );
}

function ended({ verified_at, last }: Verification, locale: string, t: Translate): Pair[] {
  const at = verified_at == null ? t("backup.never") : formatTime(verified_at * 1000, locale);
  if (last == null) return [[t("verify.last"), at]];
  return [
    [t("verify.last"), at],
    [t("verify.last.read"), formatBytes(last.read_bytes)],
  ];
}

function found(verification: Verification, locale: string, t: Translate): Pair[] {
  const { damage, damaged_objects, damaged_points, points } = verification;
  return [
    [t("verify.objects"), formatCount(damaged_objects, locale)],
    ...(damage.length === 0 ? [] : [["", <Lines texts={damage.map(({ why }) => why)} />] as const]),
    [t("verify.points"), formatCount(damaged_points, locale)],
    ...(points.length === 0
      ? []
      : [["", <Lines texts={points.map(({ point, name, why }) => `${point} (${name}): ${why}`)} />] as const]),
  ];
}

export function VerificationCard({ policy }: { policy: BackupPolicy }) {
  const { t, locale } = useSpeech();
  const { verify, verification } = policy;
  if (verify == null && verification == null) return null;
  const time = (seconds: number) => formatTime(seconds * 1000, locale);
  const pairs: Pair[] = [
    [
      t("verify.schedule"),
      verify == null ? t("verify.no.more") : t("verify.of", { schedule: verify.schedule, percent: verify.percent }),
    ],
  ];
  if (verification != null) {
    const { failing, fault, next_at, repository, runner, slow_seconds, whole_since } = verification;
    const why = fault ?? failing;
    pairs.push(
      ...(repository == null ? [] : [[t("verify.repository"), <Name text={repository} />] as const]),
      ...(why == null ? [] : [[t("policy.last.why"), <Name text={why} whole />] as const]),
      ...(slow_seconds === 0 ? [] : [[t("verify.slow"), formatDuration(slow_seconds)] as const]),
      ...(next_at == null ? [] : [[t("verify.next"), time(next_at)] as const]),
      ...(runner == null ? [] : [[t("backup.runner"), <Name text={runner} />] as const]),
      ...ended(verification, locale, t),
      [t("verify.whole"), whole_since == null ? t("verify.whole.no") : time(whole_since)],
      ...found(verification, locale, t),
    );
  }
  return (
    <section className="card">
      <h2>{t("verify.title")}</h2>
      {isDamaged(policy) ? <p>{t("verify.damaged.about")}</p> : null}
      <Pairs pairs={pairs} />
    </section>
  );
}
