import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { matchText } from "../../lib/alerts";
import { formatTime } from "../../lib/format";
import { AddSilence, RemoveSilence } from "./actions";

export type Silence = components["schemas"]["Silence"];

function columns(t: Translate, locale: string): TableColumnsType<Silence> {
  return [
    {
      title: t("node.state"),
      width: 120,
      render: (_, { holds }) =>
        holds ? <Mark tone="busy">{t("silence.holds")}</Mark> : <Mark>{t("silence.rests")}</Mark>,
    },
    { title: t("silence.matches"), width: 300, render: (_, { matches }) => <Name text={matchText(matches)} /> },
    { title: t("silence.why"), width: 300, render: (_, { why }) => <Name text={why} whole /> },
    { title: t("silence.from"), width: 190, render: (_, { from }) => formatTime(from * 1000, locale) },
    {
      title: t("silence.until"),
      width: 190,
      sorter: (a, b) => a.until - b.until,
      render: (_, { until }) => formatTime(until * 1000, locale),
    },
    { title: t("token.made_by"), width: 180, render: (_, { by }) => <Name text={by} /> },
    {
      title: t("list.actions"),
      width: 120,
      render: (_, silence) => (
        <Act
          size="small"
          danger
          may="silence.remove"
          label={t("silence.end")}
          dialog={(close) => <RemoveSilence silence={silence} onClose={close} />}
        />
      ),
    },
  ];
}

export function SilenceList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/silences");
  const found = useMemo(
    () => list.items.filter(({ matches: which, why, by }) => matches(search, matchText(which), why, by)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("silence.all")}
      search={t("silence.search")}
      about={t("silence.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="id"
      actions={
        <Act
          may="silence.add"
          type="primary"
          label={t("silence.add")}
          dialog={(close) => <AddSilence onClose={close} />}
        />
      }
    />
  );
}
