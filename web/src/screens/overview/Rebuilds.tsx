import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import { recoveryOf } from "../../lib/jobs";
import type { JobRow } from "../../lib/jobs";
import { placeHref } from "../../lib/router";
import { timeLeft } from "../jobs/useJobs";
import type { Store } from "../nodes/StoreList";

/** How long it takes yet, where the cluster says so. */
function TimeLeft({ job }: { job: JobRow | undefined }) {
  const { t } = useSpeech();
  const left = job === undefined ? "" : timeLeft(job, t);
  return (
    <div className="faint">{left === "" ? t("overview.rebuilds.unknown") : t("overview.rebuilds.left", { left })}</div>
  );
}

/** Stores that are being brought up to date, and how long that takes. */
export function Rebuilds({ stores, jobs }: { stores: readonly Store[]; jobs: readonly JobRow[] }) {
  const { t } = useSpeech();
  const syncing = stores.filter((store) => store.syncing > 0);
  return (
    <section className="card">
      <h2>{t("overview.rebuilds")}</h2>
      {syncing.length === 0 ? <p>{t("overview.rebuilds.none")}</p> : null}
      <ul className="facts">
        {syncing.map((store) => (
          <li key={store.id}>
            <a href={placeHref(["nodes", store.node])}>
              <Name text={store.node} />
            </a>{" "}
            <Name text={store.path} />
            <div>{t("overview.rebuilds.groups", { count: store.syncing, done: store.in_sync, all: store.groups })}</div>
            <Meter label={t("overview.rebuilds")} part={store.in_sync} whole={store.groups} isFine />
            <TimeLeft job={recoveryOf(jobs, store.id)} />
          </li>
        ))}
      </ul>
    </section>
  );
}
