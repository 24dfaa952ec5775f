// What takes a volume's gateway a while: how far it is, and what begins and ends it.
import { Spin } from "antd";
import { useList, useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Mark } from "../../components/Mark";
import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatCount, formatTime } from "../../lib/format";
import { jobsOfVolume } from "../../lib/jobs";
import { JobActions, JobProgress, JobState } from "../jobs/parts";
import { jobText, timeLeft } from "../jobs/useJobs";
import type { Volume } from "./VolumeList";
import { CancelFlatten, ClearReservation, FlattenVolume, MoveOwner, ScrubVolume } from "./work";

type Schemas = components["schemas"];

/** What takes long of it: a copy that it becomes, a move, whatever the API tells. */
function Jobs({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const jobs = useList("/api/v1/jobs");
  const rows = jobsOfVolume(jobs.items, volume.name);
  return (
    <section className="card">
      <h2>{t("overview.work")}</h2>
      {jobs.error === null ? null : <Problem error={jobs.error} />}
      {rows.length === 0 && !jobs.isLoading ? <p>{t("overview.work.none")}</p> : null}
      <ul className="facts">
        {rows.map((row) => (
          <li key={row.id}>
            <div className="tree-row">
              <strong>{jobText(row.kind, t)}</strong>
              <JobState row={row} />
              <span className="faint">{timeLeft(row, t)}</span>
              <JobActions row={row} />
            </div>
            <JobProgress row={row} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function FlattenState({ found }: { found: Schemas["Flattening"] }) {
  const { t, locale } = useSpeech();
  const { state, chunks, done_chunks, asked_at, ails } = found;
  if (state === "flat") return <p>{t("work.flatten.flat")}</p>;
  if (state === "no") return <p>{t("work.flatten.no")}</p>;
  return (
    <>
      {chunks == null || done_chunks == null ? null : (
        <>
          <p>{t("work.flatten.done", { done: formatCount(done_chunks, locale), all: formatCount(chunks, locale) })}</p>
          <Meter label={t("work.flatten")} part={done_chunks} whole={chunks} isFine />
        </>
      )}
      {asked_at == null ? null : (
        <p className="faint">{t("work.since", { time: formatTime(asked_at * 1000, locale) })}</p>
      )}
      {ails == null ? null : (
        <p>
          <Mark tone="odd">{t("work.ails")}</Mark> <Name text={ails} whole />
        </p>
      )}
    </>
  );
}

function Flatten({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/volumes/{name}/flatten", { name: volume.name });
  const state = data?.data.state;
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("work.flatten")}</h2>
        <span className="space" />
        {state === "no" ? (
          <Act
            may="volume.flatten"
            label={t("work.flatten.begin")}
            dialog={(close) => <FlattenVolume volume={volume} onClose={close} />}
          />
        ) : null}
        {state === "under-way" ? (
          <Act
            may="volume.flatten"
            label={t("work.flatten.cancel")}
            dialog={(close) => <CancelFlatten name={volume.name} onClose={close} />}
          />
        ) : null}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : <FlattenState found={data.data} />}
    </section>
  );
}

function ScrubFacts({ found }: { found: Schemas["Scrub"] }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  if (found.requested === 0) return <p>{t("work.scrub.never")}</p>;
  const isDone = found.requested === found.finished;
  return (
    <>
      <p>
        {isDone ? <Mark tone="good">{t("work.scrub.ended")}</Mark> : <Mark tone="busy">{t("work.under_way")}</Mark>}
        {t("work.since", { time: formatTime(found.requested_at * 1000, locale) })}
      </p>
      {found.finished === 0 ? null : (
        <Pairs
          pairs={[
            [t("work.scrub.copies"), count(found.copies)],
            [t("work.scrub.damaged"), count(found.damaged)],
            [t("work.scrub.differing"), count(found.differing)],
            [t("work.scrub.repaired"), count(found.repaired)],
            [t("work.scrub.skipped"), count(found.skipped)],
            [
              t("work.scrub.unread"),
              found.unread.length === 0
                ? t("none")
                : found.unread.map(({ store, groups }) => (
                    <div key={store}>{t("work.scrub.unread.store", { store, groups })}</div>
                  )),
            ],
          ]}
        />
      )}
    </>
  );
}

function Scrub({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/volumes/{name}/scrub", { name: volume.name });
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("work.scrub")}</h2>
        <span className="space" />
        <Act
          may="volume.scrub"
          label={t("work.scrub.begin")}
          dialog={(close) => <ScrubVolume volume={volume} onClose={close} />}
        />
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : <ScrubFacts found={data.data} />}
    </section>
  );
}

/** Who has reserved it, and who is registered. */
function Reserved({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/volumes/{name}/reservation", { name: volume.name });
  if (error !== null) return <Problem error={error} />;
  if (data === undefined) return null;
  const { kind, registrants, locked } = data.data;
  if (locked) return <p>{t("work.reservation.locked")}</p>;
  if (kind == null && registrants.length === 0) return <p>{t("work.reservation.none")}</p>;
  return (
    <>
      <p>{kind == null ? t("work.reservation.registered") : t("work.reservation.held", { kind })}</p>
      <ul className="facts">
        {registrants.map(({ host_id, port, key, holder }) => (
          <li key={`${host_id} ${port?.initiator} ${port?.tag}`}>
            <Name text={port == null ? host_id : port.initiator} />{" "}
            {port == null ? null : `${t("gateway.tag", { tag: port.tag })} `}
            {key} {holder ? <Mark tone="busy">{t("work.reservation.holder")}</Mark> : null}
          </li>
        ))}
      </ul>
    </>
  );
}

function Owner({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("volume.owner")}</h2>
        <Name text={volume.owner ?? t("volume.unused")} />
        <span className="space" />
        <Act
          may="volume.move"
          label={t("work.move")}
          dialog={(close) => <MoveOwner volume={volume} onClose={close} />}
        />
        <Act
          danger
          may="reservation.clear"
          label={t("work.reservation.clear")}
          dialog={(close) => <ClearReservation volume={volume} onClose={close} />}
        />
      </div>
      <p className="faint">{t("work.owner.about")}</p>
      <Reserved volume={volume} />
    </section>
  );
}

export function WorkTab({ volume }: { volume: Volume }) {
  return (
    <>
      <Jobs volume={volume} />
      <Owner volume={volume} />
      <Flatten volume={volume} />
      <Scrub volume={volume} />
    </>
  );
}
