// What the list and the page of a policy of backups both show.
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { isDamaged, runState } from "../../lib/backups";
import type { BackupPolicy, RunState } from "../../lib/backups";
import { formatDuration } from "../../lib/format";

const RUNS: Readonly<Record<Exclude<RunState, "none">, readonly [Tone, Word]>> = {
  running: ["busy", "policy.running"],
  waits: ["odd", "backup.run.waits"],
  left: ["odd", "backup.run.left"],
};

export function BackupState({ policy }: { policy: BackupPolicy }) {
  const { t } = useSpeech();
  const { fault, history, late_seconds, paused, verification } = policy;
  const run = runState(policy);
  const failed = history?.last?.failed ?? 0;
  return (
    <span className="labels">
      {fault == null ? null : <Mark tone="bad">{t("policy.fault")}</Mark>}
      {isDamaged(policy) ? <Mark tone="bad">{t("verify.damaged")}</Mark> : null}
      {verification?.overdue === true ? <Mark tone="bad">{t("verify.overdue")}</Mark> : null}
      {paused ? <Mark tone="odd">{t("policy.paused")}</Mark> : null}
      {run === "none" ? null : <Mark tone={RUNS[run][0]}>{t(RUNS[run][1])}</Mark>}
      {late_seconds > 0 ? <Mark tone="bad">{t("policy.late", { time: formatDuration(late_seconds) })}</Mark> : null}
      {failed > 0 ? <Mark tone="bad">{t("policy.failed", { count: failed })}</Mark> : null}
      {history == null && !paused ? <Mark tone="odd">{t("backup.unseen")}</Mark> : null}
    </span>
  );
}
