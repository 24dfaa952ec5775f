import { Mark } from "../../components/Mark";
import { useSpeech } from "../../i18n";
import { formatDuration } from "../../lib/format";
import { countKinds } from "../../lib/jobs";
import type { JobRow } from "../../lib/jobs";
import { placeHref } from "../../lib/router";
import { jobText } from "../jobs/useJobs";

/** How much is under way, by kind, and when redundancy is back where the cluster says. */
export function Work({ jobs }: { jobs: readonly JobRow[] }) {
  const { t } = useSpeech();
  const recoveries = jobs.filter(({ kind }) => kind === "recovery");
  const times = recoveries.map(({ leftSeconds }) => leftSeconds).filter((left) => left !== undefined);
  const unknown = recoveries.length - times.length;
  return (
    <section className="card">
      <h2>
        <a href={placeHref(["jobs"])}>{t("overview.work")}</a>
      </h2>
      {jobs.length === 0 ? t("overview.work.none") : null}
      <span className="labels">
        {countKinds(jobs).map(([kind, count]) => (
          <Mark key={kind} tone="busy">
            {jobText(kind, t)}: {count}
          </Mark>
        ))}
      </span>
      {times.length === 0 ? null : <p>{t("overview.work.left", { time: formatDuration(Math.max(...times)) })}</p>}
      {unknown === 0 ? null : <p className="faint">{t("overview.work.unknown", { count: unknown })}</p>}
    </section>
  );
}
