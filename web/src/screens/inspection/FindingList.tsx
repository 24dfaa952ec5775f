import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { Copyable } from "../../components/Copyable";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatTime } from "../../lib/format";
import { findingRows } from "../../lib/inspection";
import type { FindingRow } from "../../lib/inspection";
import { Place, SEVERITIES, SeverityMark, useInspection } from "./parts";

const ORDER = Object.keys(SEVERITIES);

function columns(t: Translate): TableColumnsType<FindingRow> {
  return [
    {
      title: t("event.severity"),
      width: 110,
      sorter: (a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity),
      render: (_, { severity }) => <SeverityMark severity={severity} />,
    },
    {
      title: t("inspection.place"),
      width: 230,
      sorter: (a, b) => a.place.name.localeCompare(b.place.name),
      render: (_, { place }) => <Place place={place} />,
    },
    { title: t("inspection.reason"), width: 420, render: (_, { reason }) => <Name text={reason} whole /> },
    { title: t("inspection.mend"), width: 420, render: (_, { mend }) => <Name text={mend} whole /> },
    {
      title: t("inspection.explain"),
      width: 260,
      sorter: (a, b) => a.code.localeCompare(b.code),
      render: (_, { code }) => <Copyable label={code} text={amitaCommand("explain", code)} />,
    },
  ];
}

/** What was found, the worst first. */
export function FindingList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { found, isLoading, error } = useInspection();
  const items = useMemo(() => findingRows(found?.findings ?? []), [found]);
  const shown = useMemo(
    () =>
      items.filter(({ code, check, place, reason, mend }) =>
        matches(search, code, check, place.kind, place.name, reason, mend),
      ),
    [items, search],
  );
  const table = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("screen.inspection")}
      search={t("inspection.search")}
      about={
        <>
          {found === undefined ? null : (
            <>
              <Name text={found.summary} whole />{" "}
              {t("inspection.at", { time: formatTime(found.at * 1000, locale) })}{" "}
            </>
          )}
          {t("inspection.about")}
        </>
      }
      list={{ items, isLoading, error }}
      found={shown}
      columns={table}
      rowKey="id"
    />
  );
}
