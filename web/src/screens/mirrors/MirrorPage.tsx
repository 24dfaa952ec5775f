// One end of a mirror: how it is, what it has, what is being brought, and what was seen of the other end.
import { Spin } from "antd";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { Copyable } from "../../components/Copyable";
import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes, formatDuration, formatTime } from "../../lib/format";
import { actionsOf, factsOf, lastPoint, opened } from "../../lib/mirrors";
import type { Mirror, Opened, Pass } from "../../lib/mirrors";
import { placeHref } from "../../lib/router";
import type { Word } from "../../i18n";
import {
  DemoteMirror,
  ForceMirror,
  PauseMirror,
  PromoteMirror,
  RemoveMirror,
  ResyncMirror,
  SetMirror,
} from "./actions";
import { lagText, MirrorState, PassMeter, Role, roleText, useFacts } from "./parts";

/** How far a pass is is noted so often. */
const REFRESH_MS = 5_000;

function Actions({ mirror }: { mirror: Mirror }) {
  const { t } = useSpeech();
  const may = actionsOf(mirror);
  const given = { mirror };
  const isPaused = mirror.paused != null;
  return (
    <>
      <Act may="mirror.set" label={t("action.change")} dialog={(close) => <SetMirror {...given} onClose={close} />} />
      <Act
        may={isPaused ? "mirror.resume" : "mirror.pause"}
        label={isPaused ? t("mirror.resume") : t("mirror.pause")}
        dialog={(close) => <PauseMirror {...given} onClose={close} />}
      />
      {may.includes("demote") ? (
        <Act
          danger
          may="mirror.demote"
          label={t("mirror.demote")}
          dialog={(close) => <DemoteMirror {...given} onClose={close} />}
        />
      ) : null}
      {may.includes("promote") ? (
        <Act
          may="mirror.promote"
          label={t("mirror.promote")}
          dialog={(close) => <PromoteMirror {...given} onClose={close} />}
        />
      ) : null}
      {may.includes("resync") ? (
        <>
          <Act
            may="mirror.resync"
            label={t("mirror.resync.dry")}
            dialog={(close) => <ResyncMirror {...given} isDry onClose={close} />}
          />
          <Act
            danger
            may="mirror.resync"
            label={t("mirror.resync")}
            dialog={(close) => <ResyncMirror {...given} isDry={false} onClose={close} />}
          />
        </>
      ) : null}
      {may.includes("force") ? (
        <Act
          danger
          may="mirror.force"
          label={t("mirror.force")}
          dialog={(close) => <ForceMirror {...given} onClose={close} />}
        />
      ) : null}
      {may.includes("remove") ? (
        <Act
          danger
          may="mirror.remove"
          label={t("mirror.remove")}
          dialog={(close) => <RemoveMirror {...given} onClose={close} />}
        />
      ) : null}
    </>
  );
}

/** What the facts of the cluster say of it, with what to do. */
function Told({ mirror }: { mirror: Mirror }) {
  const { t } = useSpeech();
  const told = factsOf(useFacts(), mirror.name);
  if (told.length === 0) return null;
  return (
    <section className="card">
      <h2>{t("mirror.told")}</h2>
      <ul className="facts">
        {told.map(({ name, text, advice }) => (
          <li key={name}>
            <Name text={text} whole />
            {advice === "" ? null : (
              <div className="faint">
                <Name text={advice} whole />
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Facts({ mirror }: { mirror: Mirror }) {
  const { t, locale } = useSpeech();
  const facts = useFacts();
  const { paused, ails, limit_bytes_per_second: rate, alert_after_s: after } = mirror;
  const point = lastPoint(mirror);
  const time = (seconds: number) => formatTime(seconds * 1000, locale);
  const late = { time: formatDuration(mirror.late_after_s) };
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("mirror.role"), <Role role={mirror.role} handed={mirror.handed} />],
          [t("node.state"), <MirrorState mirror={mirror} facts={facts} />],
          ...(ails == null ? [] : [[t("mirror.ails"), <Name text={ails} whole />] as const]),
          ...(paused == null
            ? []
            : [
                [
                  t("mirror.paused"),
                  <Name text={t("job.paused_by", { name: paused.by, at: time(paused.at) })} />,
                ] as const,
              ]),
          [t("mirror.lag"), lagText(mirror, t)],
          [t("mirror.late_after"), after == null ? t("mirror.late_after.usual", late) : late.time],
          [t("mirror.point"), point === undefined ? t("none") : <Name text={`${point.name}, ${time(point.cut_at)}`} />],
          [t("mirror.interval"), formatDuration(mirror.interval_s)],
          [t("mirror.keep"), mirror.keep],
          [t("mirror.rate"), rate == null ? t("mirror.rate.none") : t("limit.rate", { rate: formatBytes(rate) })],
          [t("mirror.epoch"), mirror.epoch],
          ...(mirror.never_deposed ? [[t("mirror.never_deposed"), t("yes")] as const] : []),
          [t("volume.id"), <Name text={mirror.id} />],
        ]}
      />
    </section>
  );
}

function Other({ mirror: { peer, seen } }: { mirror: Mirror }) {
  const { t, locale } = useSpeech();
  return (
    <section className="card">
      <h2>{t("mirror.other")}</h2>
      {peer.cluster == null ? <p>{t("mirror.alone.about")}</p> : null}
      <Pairs
        pairs={[
          ...(peer.cluster == null ? [] : [[t("mirror.cluster"), <Name text={peer.cluster} whole />] as const]),
          [t("mirror.addresses"), <Name text={peer.addresses.join(", ") || t("none")} whole />],
          ...(seen == null
            ? [[t("mirror.seen"), t("mirror.never_seen")] as const]
            : ([
                [t("mirror.seen"), formatTime(seen.at * 1000, locale)],
                [t("mirror.role"), <Name text={roleText(seen.role, seen.handed, t)} />],
                [t("mirror.point"), seen.point == null ? t("none") : <Name text={seen.point} />],
                [t("mirror.epoch"), seen.epoch],
              ] as const)),
        ]}
      />
    </section>
  );
}

function Brought({ pass }: { pass: Pass }) {
  const { t, locale } = useSpeech();
  const cut = formatTime(pass.cut_at * 1000, locale);
  return (
    <section className="card">
      <h2>{t("mirror.pass")}</h2>
      <p>
        {pass.base == null
          ? t("mirror.pass.all", { point: pass.to, time: cut })
          : t("mirror.pass.from", { point: pass.to, time: cut, base: pass.base })}
      </p>
      <PassMeter pass={pass} />
      <ul className="facts">
        {pass.volumes.map(({ name, done_bytes, total_bytes, written_bytes, whole }) => (
          <li key={name}>
            <Name text={name} />{" "}
            <span className="faint">
              {t("job.done", { done: formatBytes(done_bytes), all: formatBytes(total_bytes) })},{" "}
              {t("mirror.pass.written", { size: formatBytes(written_bytes) })}
              {whole ? `, ${t("mirror.pass.whole")}` : ""}
            </span>
            <Meter
              label={t("mirror.pass.volume", { name })}
              part={whole ? 1 : done_bytes}
              whole={whole ? 1 : total_bytes}
              isFine
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Volumes({ mirror: { volumes } }: { mirror: Mirror }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <h2>{t("screen.volumes")}</h2>
      <p className="faint">{t("mirror.volumes.about")}</p>
      <ul className="facts">
        {volumes.map((name) => (
          <li key={name}>
            <a href={placeHref(["volumes"], { q: name })}>
              <Name text={name} />
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The newest first. */
function Points({ mirror: { points } }: { mirror: Mirror }) {
  const { t, locale } = useSpeech();
  return (
    <section className="card">
      <h2>{t("mirror.points")}</h2>
      <p className="faint">{t("mirror.points.about")}</p>
      {points.length === 0 ? <p>{t("none")}</p> : null}
      <ul className="facts verdicts" tabIndex={0} aria-label={t("mirror.points")}>
        {[...points].reverse().map(({ name, cut_at, snapshots }) => (
          <li key={name}>
            <Name text={name} /> <span className="faint">{formatTime(cut_at * 1000, locale)}</span>{" "}
            <Name text={t("mirror.points.snapshots", { name: snapshots })} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const OPENED: Readonly<Record<Opened, Word>> = {
  "as-written": "mirror.leave.as_written",
  point: "mirror.leave.point",
  parts: "mirror.leave.parts",
  begun: "mirror.leave.begun",
};

/** An end that is no primary is removed by the command alone, which says what becomes of its volumes. */
function Leave({ mirror }: { mirror: Mirror }) {
  const { t } = useSpeech();
  const { name, role, point } = mirror;
  if (role !== "secondary" && role !== "deposed") return null;
  const how = opened(mirror);
  return (
    <section className="card">
      <h2>{t("mirror.remove")}</h2>
      <p>{t("mirror.leave.about")}</p>
      <p>{t(OPENED[how], { point: point ?? "" })}</p>
      {how === "begun" ? null : (
        <Copyable label={t("mirror.leave.open")} text={amitaCommand("mirror", "remove", name)} />
      )}
      <Copyable label={t("mirror.leave.delete")} text={amitaCommand("mirror", "remove", name, "--delete")} />
    </section>
  );
}

export function MirrorPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/mirrors/{name}", { name }, { everyMs: REFRESH_MS });
  const mirror = data?.data;
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["mirrors"])}>{t("screen.mirrors")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {mirror === undefined ? null : <Actions mirror={mirror} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {mirror === undefined ? null : (
        <>
          <Told mirror={mirror} />
          <Facts mirror={mirror} />
          {mirror.pass == null ? null : <Brought pass={mirror.pass} />}
          <Other mirror={mirror} />
          <Volumes mirror={mirror} />
          <Points mirror={mirror} />
          <Leave mirror={mirror} />
        </>
      )}
    </>
  );
}
