import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { byUrgency } from "../../lib/alerts";
import { formatTime } from "../../lib/format";
import { markOf } from "../../lib/known";
import { Acknowledge, AddSilence, ShowAlert } from "./actions";

type Schemas = components["schemas"];
export type Alert = Schemas["Alert"];

export const SEVERITIES: Readonly<Record<Schemas["AlertSeverity"], readonly [Tone, Word]>> = {
  critical: ["bad", "alert.critical"],
  warning: ["odd", "event.warning"],
  info: ["plain", "event.info"],
};
const STATES: Readonly<Record<Schemas["AlertState"], readonly [Tone, Word]>> = {
  firing: ["bad", "alert.firing"],
  pending: ["busy", "alert.pending"],
  resolved: ["good", "alert.resolved"],
};

export function AlertMarks({ alert }: { alert: Alert }) {
  const { t } = useSpeech();
  const [tone, text] = markOf(STATES, alert.state, t);
  return (
    <>
      <Mark tone={tone}>{text}</Mark>
      {alert.acknowledged == null ? null : <Mark tone="busy">{t("alert.acknowledged")}</Mark>}
      {alert.silenced_by == null ? null : <Mark>{t("alert.silenced")}</Mark>}
    </>
  );
}

function AlertActions({ alert }: { alert: Alert }) {
  const { t } = useSpeech();
  return (
    <span className="row-actions">
      <Act
        size="small"
        may="cluster.view"
        label={t("alert.show")}
        dialog={(close) => <ShowAlert alert={alert} onClose={close} />}
      />
      {alert.state === "resolved" || alert.acknowledged != null ? null : (
        <Act
          size="small"
          may="alert.ack"
          label={t("alert.ack")}
          dialog={(close) => <Acknowledge alert={alert} onClose={close} />}
        />
      )}
      {alert.state === "resolved" || alert.silenced_by != null ? null : (
        <Act
          size="small"
          may="silence.add"
          label={t("silence.add")}
          dialog={(close) => <AddSilence alert={alert} onClose={close} />}
        />
      )}
    </span>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<Alert> {
  return [
    { title: t("node.state"), width: 220, sorter: byUrgency, render: (_, alert) => <AlertMarks alert={alert} /> },
    {
      title: t("event.severity"),
      width: 100,
      render: (_, { severity }) => {
        const [tone, text] = markOf(SEVERITIES, severity, t);
        return <Mark tone={tone}>{text}</Mark>;
      },
    },
    {
      title: t("alert.code"),
      width: 170,
      sorter: (a, b) => a.code.localeCompare(b.code),
      render: (_, { code }) => <Name text={code} />,
    },
    { title: t("alert.object"), width: 180, render: (_, { object }) => <Name text={object} /> },
    { title: t("event.text"), width: 420, render: (_, { what }) => <Name text={what} whole /> },
    {
      title: t("alert.since"),
      width: 190,
      sorter: (a, b) => a.since - b.since,
      render: (_, { since }) => formatTime(since * 1000, locale),
    },
    { title: t("list.actions"), width: 260, render: (_, alert) => <AlertActions alert={alert} /> },
  ];
}

export function AlertList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/alerts");
  const found = useMemo(
    () =>
      list.items.filter(({ code, object, what, state }) => matches(search, code, object, what, state)).sort(byUrgency),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("screen.alerts")}
      search={t("alert.search")}
      about={t("alert.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="id"
    />
  );
}
