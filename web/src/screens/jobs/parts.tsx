// What the screen of jobs and the page of a volume both show of a job, and what can be done about it.
import { call } from "../../api/call";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes, formatCount, formatTime } from "../../lib/format";
import type { JobKind, JobRow } from "../../lib/jobs";
import { markOf } from "../../lib/known";
import { jobText } from "./useJobs";

const STATES: Readonly<Record<JobRow["state"], readonly [Tone, Word]>> = {
  running: ["busy", "job.running"],
  stalled: ["odd", "job.stalled"],
  refused: ["bad", "job.refused"],
  done: ["good", "job.ended"],
  paused: ["plain", "job.paused"],
};
/** The action, as the audit log names it, by which a job of a kind is taken back. */
const MAY: Readonly<Record<string, string>> = {
  copy: "volume.copy",
  migrate: "volume.migrate",
  rekey: "volume.rekey",
  drain: "disk.drain",
  flatten: "volume.flatten",
  move: "volume.move",
  scrub: "volume.scrub",
};

function commandOf({ id, kind, object }: NonNullable<JobRow["cancels"]>): string {
  if (kind === "drain") return amitaCommand("disk", "drain", object, "--undo");
  if (kind === "flatten") return amitaCommand("volume", "flatten", object, "--cancel");
  return amitaCommand("job", "cancel", id);
}

const CANCEL_WORDS: Readonly<Partial<Record<JobKind, Word>>> = {
  copy: "job.cancel.copy",
  migrate: "job.cancel.migrate",
  rekey: "job.cancel.rekey",
};

function CancelJob({ row, onClose }: { row: JobRow; onClose: () => void }) {
  const { t } = useSpeech();
  const job = row.cancels!;
  return (
    <ActionDialog
      title={t("job.cancel.title", { kind: jobText(row.kind, t), name: row.object })}
      verb={t("job.cancel")}
      about={t(CANCEL_WORDS[row.kind] ?? "job.cancel.about")}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/jobs/{id}/cancel", { params: { path: { id: job.id } } }),
        command: commandOf(job),
      })}
      onClose={onClose}
    />
  );
}

const HOLD_WORDS = {
  pause: { verb: "job.pause", title: "job.pause.title", about: "job.pause.about" },
  resume: { verb: "job.resume", title: "job.resume.title", about: "job.resume.about" },
} as const;

/** A job stands still, or goes on. */
function HoldJob({ row, onClose }: { row: JobRow; onClose: () => void }) {
  const { t } = useSpeech();
  const { job, verb } = row.waits!;
  const params = { params: { path: { id: job.id } } };
  const words = HOLD_WORDS[verb];
  return (
    <ActionDialog
      title={t(words.title, { kind: jobText(row.kind, t), name: row.object })}
      verb={t(words.verb)}
      about={t(words.about)}
      initial={{}}
      plan={() => ({
        call:
          verb === "pause"
            ? call("post", "/api/v1/jobs/{id}/pause", params)
            : call("post", "/api/v1/jobs/{id}/resume", params),
        command: amitaCommand("job", verb, job.id),
      })}
      onClose={onClose}
    />
  );
}

export function JobProgress({ row }: { row: JobRow }) {
  const { t, locale } = useSpeech();
  const { done, total, left, unit } = row;
  const write = (value: number) => (unit === "bytes" ? formatBytes(value) : formatCount(value, locale));
  if (done !== undefined && total !== undefined) {
    return (
      <>
        {t("job.done", { done: write(done), all: write(total) })}
        <Meter label={t("job.progress")} part={done} whole={total} isFine />
      </>
    );
  }
  return left === undefined ? t("unknown") : t("job.left", { count: write(left) });
}

export function JobState({ row }: { row: JobRow }) {
  const { t, locale } = useSpeech();
  const [tone, text] = markOf(STATES, row.state, t);
  return (
    <>
      <Mark tone={tone}>{text}</Mark>
      {row.paused === undefined ? null : (
        <Name text={t("job.paused_by", { name: row.paused.by, at: formatTime(row.paused.at * 1000, locale) })} />
      )}
      {row.ails === undefined ? null : <Name text={row.ails} />}
    </>
  );
}

/** It is paused, resumed and taken back as the API says. */
export function JobActions({ row }: { row: JobRow }) {
  const { t } = useSpeech();
  return (
    <span className="row-actions">
      {row.waits === undefined ? null : (
        <Act
          size="small"
          may={`job.${row.waits.verb}`}
          label={t(HOLD_WORDS[row.waits.verb].verb)}
          dialog={(close) => <HoldJob row={row} onClose={close} />}
        />
      )}
      {row.cancels === undefined ? null : (
        <Act
          size="small"
          may={MAY[row.kind] ?? "volume.flatten"}
          label={t("job.cancel")}
          dialog={(close) => <CancelJob row={row} onClose={close} />}
        />
      )}
    </span>
  );
}
