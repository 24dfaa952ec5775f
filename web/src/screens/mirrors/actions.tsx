// What can be done at an end of a mirror. The API begins what takes long, and does not wait for it.
import { call } from "../../api/call";
import type { Result } from "../../api/call";
import { ActionDialog } from "../../components/ActionDialog";
import { RateField } from "../../components/fields";
import { CheckField, NumberField, TextField } from "../../components/inputs";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatDuration, formatTime } from "../../lib/format";
import {
  forceLoss,
  lastPoint,
  LEAST_INTERVAL_S,
  mirrorChange,
  mirrorValues,
  MOST_KEPT,
  readSeconds,
} from "../../lib/mirrors";
import type { Mirror, MirrorValues } from "../../lib/mirrors";
import { goTo } from "../../lib/router";
import { lagText, roleText } from "./parts";

/** A month: nobody mirrors so seldom. */
const MOST_INTERVAL_S = 2_592_000;

interface Props {
  readonly mirror: Mirror;
  readonly onClose: () => void;
}

function pathOf({ name }: Mirror) {
  return { path: { name } };
}

export function SetMirror({ mirror, onClose }: Props) {
  const { t } = useSpeech();
  const fields = (
    <>
      <div className="field-row">
        <NumberField
          name="interval"
          label={t("mirror.interval.seconds")}
          min={LEAST_INTERVAL_S}
          max={MOST_INTERVAL_S}
        />
        <NumberField name="keep" label={t("mirror.keep")} min={0} max={MOST_KEPT} />
      </div>
      <RateField label={t("mirror.rate.most")} />
      <TextField
        name="alertAfter"
        label={t("mirror.late_after.seconds")}
        about={t("mirror.late_after.about")}
        fits={(text) => readSeconds(text) !== undefined}
        why={t("mirror.late_after.wrong")}
      />
    </>
  );
  const plan = (values: MirrorValues) => {
    const { body, command } = mirrorChange(mirror, values);
    return { call: call("patch", "/api/v1/mirrors/{name}", { params: pathOf(mirror), body }), command };
  };
  return (
    <ActionDialog
      title={t("mirror.set.title", { name: mirror.name })}
      verb={t("action.change")}
      about={t("mirror.set.about")}
      initial={mirrorValues(mirror)}
      fields={fields}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function PauseMirror({ mirror, onClose }: Props) {
  const { t } = useSpeech();
  const { name } = mirror;
  const isPaused = mirror.paused != null;
  return (
    <ActionDialog
      title={isPaused ? t("mirror.resume.title", { name }) : t("mirror.pause.title", { name })}
      verb={isPaused ? t("mirror.resume") : t("mirror.pause")}
      about={isPaused ? t("mirror.resume.about") : t("mirror.pause.about")}
      initial={{}}
      plan={() => ({
        call: isPaused
          ? call("post", "/api/v1/mirrors/{name}/resume", { params: pathOf(mirror) })
          : call("post", "/api/v1/mirrors/{name}/pause", { params: pathOf(mirror) }),
        command: amitaCommand("mirror", isPaused ? "resume" : "pause", name),
      })}
      onClose={onClose}
    />
  );
}

export function DemoteMirror({ mirror, onClose }: Props) {
  const { t } = useSpeech();
  const { name } = mirror;
  return (
    <ActionDialog
      title={t("mirror.demote.title", { name })}
      verb={t("mirror.demote")}
      about={t("mirror.demote.about")}
      initial={{ force: false }}
      fields={<CheckField name="force" label={t("mirror.demote.force")} about={t("mirror.demote.force.about")} />}
      typed={({ force }) => (force ? name : undefined)}
      danger
      plan={({ force }) => ({
        call: call("post", "/api/v1/mirrors/{name}/demote", { params: pathOf(mirror), body: { force } }),
        command: amitaCommand("mirror", "demote", name, force ? "--force" : undefined, "--no-wait"),
      })}
      done={() => t("mirror.begun")}
      onClose={onClose}
    />
  );
}

/** What has to be so before it is promoted in order, by what was seen of the other end. */
function promotion({ handed, seen, point }: Mirror, t: Translate): string {
  if (handed) return t("mirror.promote.back");
  if (seen == null) return t("mirror.promote.unseen");
  if (!seen.handed) return t("mirror.promote.not_handed", { role: roleText(seen.role, false, t) });
  if (seen.point !== point) return t("mirror.promote.waits", { point: seen.point ?? t("none") });
  return t("mirror.promote.ready", { point: point ?? t("none") });
}

export function PromoteMirror({ mirror, onClose }: Props) {
  const { t } = useSpeech();
  const { name } = mirror;
  return (
    <ActionDialog
      title={t("mirror.promote.title", { name })}
      verb={t("mirror.promote")}
      about={promotion(mirror, t)}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/mirrors/{name}/promote", { params: pathOf(mirror), body: { force: false } }),
        command: amitaCommand("mirror", "promote", name, "--no-wait"),
      })}
      done={() => t("mirror.begun")}
      onClose={onClose}
    />
  );
}

/** What is lost by force. */
function lost(mirror: Mirror, t: Translate, locale: string): string {
  const time = (seconds: number) => formatTime(seconds * 1000, locale);
  const point = lastPoint(mirror);
  switch (forceLoss(mirror)) {
    case "other":
      return t("mirror.force.other");
    case "all":
      return t("mirror.force.all");
    default:
      return t("mirror.force.since", {
        point: mirror.point ?? "",
        time: point === undefined ? t("unknown") : time(point.cut_at),
        lag: lagText(mirror, t),
      });
  }
}

/** What is known of the other end, which may go on being written. */
function otherEnd({ seen }: Mirror, t: Translate): string {
  if (seen == null) return t("mirror.force.unseen");
  const ago = formatDuration(Date.now() / 1000 - seen.at);
  return t("mirror.force.seen", { role: roleText(seen.role, seen.handed, t), ago });
}

export function ForceMirror({ mirror, onClose }: Props) {
  const { t, locale } = useSpeech();
  const { name } = mirror;
  const about = (
    <>
      <p>{lost(mirror, t, locale)}</p>
      <p>{otherEnd(mirror, t)}</p>
      <p>{t("mirror.force.about")}</p>
    </>
  );
  return (
    <ActionDialog
      title={t("mirror.force.title", { name })}
      verb={t("mirror.force")}
      about={about}
      initial={{}}
      typed={name}
      danger
      plan={() => ({
        call: call("post", "/api/v1/mirrors/{name}/promote", {
          params: pathOf(mirror),
          body: { force: true, confirm: name },
        }),
        command: amitaCommand("mirror", "promote", name, "--force", "--no-wait"),
      })}
      done={() => t("mirror.begun")}
      onClose={onClose}
    />
  );
}

type Resynced = Result<"post", "/api/v1/mirrors/{name}/resync">;

function Returned({ found }: { found: Resynced }) {
  const { t, locale } = useSpeech();
  const { common, dry_run, mirror } = found;
  const cut = mirror.points.find(({ name }) => name === common)?.cut_at;
  const time = cut === undefined ? t("unknown") : formatTime(cut * 1000, locale);
  return (
    <>
      <p>
        <Name
          text={common == null ? t("mirror.resync.none") : t("mirror.resync.common", { point: common, time })}
          whole
        />
      </p>
      <p>{dry_run ? t("mirror.resync.dry.done") : t("mirror.begun")}</p>
    </>
  );
}

/** `isDry`: only says to which point it would go back. */
export function ResyncMirror({ mirror, isDry, onClose }: Props & { isDry: boolean }) {
  const { t } = useSpeech();
  const { name } = mirror;
  return (
    <ActionDialog
      title={t("mirror.resync.title", { name })}
      verb={isDry ? t("mirror.resync.dry") : t("mirror.resync")}
      about={isDry ? t("mirror.resync.dry.about") : t("mirror.resync.about")}
      initial={{}}
      danger={!isDry}
      plan={() => ({
        call: call("post", "/api/v1/mirrors/{name}/resync", { params: pathOf(mirror), body: { dry_run: isDry } }),
        command: amitaCommand("mirror", "resync", name, isDry ? "--dry-run" : "--no-wait"),
      })}
      shows={(found) => <Returned found={found} />}
      onClose={onClose}
    />
  );
}

export function RemoveMirror({ mirror, onClose }: Props) {
  const { t } = useSpeech();
  const { name, volumes } = mirror;
  return (
    <ActionDialog
      title={t("mirror.remove.title", { name })}
      verb={t("mirror.remove")}
      about={t("mirror.remove.about", { volumes: volumes.join(", ") })}
      initial={{}}
      typed={name}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/mirrors/{name}", { params: pathOf(mirror) }),
        command: amitaCommand("mirror", "remove", name),
      })}
      done={() => (goTo(["mirrors"]), t("action.done"))}
      onClose={onClose}
    />
  );
}
