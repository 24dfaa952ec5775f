// What the cluster is doing, with how far it is and how long it takes yet, as far as that is known.
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatTime } from "../../lib/format";
import type { JobRow } from "../../lib/jobs";
import { placeHref } from "../../lib/router";
import { JobActions, JobProgress, JobState } from "./parts";
import { jobText, timeLeft, useJobs } from "./useJobs";

function columns(t: Translate, locale: string): TableColumnsType<JobRow> {
  return [
    {
      title: t("job.kind"),
      width: 200,
      sorter: (a, b) => a.kind.localeCompare(b.kind),
      render: (_, { kind }) => jobText(kind, t),
    },
    {
      title: t("job.object"),
      width: 280,
      sorter: (a, b) => a.object.localeCompare(b.object),
      render: (_, { object, place, query }) => (
        <a href={placeHref(place, query)}>
          <Name text={object} />
        </a>
      ),
    },
    { title: t("node.state"), width: 240, render: (_, row) => <JobState row={row} /> },
    { title: t("job.progress"), width: 220, render: (_, row) => <JobProgress row={row} /> },
    {
      title: t("job.time_left"),
      width: 200,
      sorter: (a, b) => (a.leftSeconds ?? Infinity) - (b.leftSeconds ?? Infinity),
      render: (_, row) => timeLeft(row, t),
    },
    {
      title: t("job.started"),
      width: 190,
      render: (_, { startedAt }) => (startedAt === undefined ? "" : formatTime(startedAt * 1000, locale)),
    },
    {
      title: t("list.actions"),
      width: 220,
      render: (_, row) => <JobActions row={row} />,
    },
  ];
}

export default function Jobs() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const jobs = useJobs();
  const found = useMemo(
    () => jobs.items.filter(({ kind, object, ails }) => matches(search, object, ails, jobText(kind, t))),
    [jobs.items, search, t],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("screen.jobs")}
      search={t("job.search")}
      about={t("job.about")}
      list={jobs}
      found={found}
      columns={shown}
      rowKey="id"
    />
  );
}
