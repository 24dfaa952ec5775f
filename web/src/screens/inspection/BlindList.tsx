import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { blindRows } from "../../lib/inspection";
import type { BlindRow } from "../../lib/inspection";
import { Place, useInspection } from "./parts";

function columns(t: Translate): TableColumnsType<BlindRow> {
  return [
    {
      title: t("inspection.check"),
      width: 160,
      sorter: (a, b) => a.check.localeCompare(b.check),
      render: (_, { check }) => <Name text={check} />,
    },
    {
      title: t("inspection.place"),
      width: 260,
      sorter: (a, b) => a.place.name.localeCompare(b.place.name),
      render: (_, { place }) => <Place place={place} />,
    },
    { title: t("inspection.why"), width: 620, render: (_, { why }) => <Name text={why} whole /> },
  ];
}

/** What could not be looked at: nobody knows whether it is well. */
export function BlindList() {
  const { t } = useSpeech();
  const search = useSearch();
  const { found, isLoading, error } = useInspection();
  const items = useMemo(() => blindRows(found?.not_looked_at ?? []), [found]);
  const shown = useMemo(
    () => items.filter(({ check, place, why }) => matches(search, check, place.kind, place.name, why)),
    [items, search],
  );
  const table = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("inspection.blind")}
      search={t("inspection.search")}
      about={t("inspection.blind.about")}
      list={{ items, isLoading, error }}
      found={shown}
      columns={table}
      rowKey="id"
    />
  );
}
