import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Button } from "antd";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useEvents, useIsLive } from "../../api/live";
import type { Event } from "../../api/live";
import { useThing } from "../../api/queries";
import { BigTable } from "../../components/BigTable";
import { Choice } from "../../components/Choice";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { mergeEvents } from "../../lib/events";
import { formatCount, formatTime } from "../../lib/format";
import { markOf } from "../../lib/known";
import { replaceQuery, usePlace } from "../../lib/router";
import { EventKind } from "./EventKind";
import { useOlder } from "./useOlder";

type Severity = Event["severity"];

const SEVERITIES: readonly Severity[] = ["info", "warning", "error"];
const MARKS: Readonly<Record<Severity, readonly [Tone, Word]>> = {
  info: ["plain", "event.info"],
  warning: ["odd", "event.warning"],
  error: ["bad", "event.error"],
};
/** So many of the newest are read. */
const NEWEST = 1_000;

/** One that is not known here is shown whatever is asked for. */
function isAtLeast(severity: Severity, least: Severity): boolean {
  return !SEVERITIES.includes(severity) || SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(least);
}

function columns(t: Translate, locale: string): TableColumnsType<Event> {
  return [
    { title: t("event.time"), width: 190, render: (_, { at_ms }) => formatTime(at_ms, locale) },
    {
      title: t("event.severity"),
      width: 100,
      render: (_, { severity }) => {
        const [tone, text] = markOf(MARKS, severity, t);
        return <Mark tone={tone}>{text}</Mark>;
      },
    },
    { title: t("event.kind"), width: 180, render: (_, { kind }) => <EventKind kind={kind} /> },
    { title: t("event.node"), width: 130, render: (_, { node }) => <Name text={node} /> },
    { title: t("event.text"), width: 620, render: (_, { text }) => <Name text={text} whole /> },
  ];
}

function SeverityFilter({ value }: { value: Severity }) {
  const { t } = useSpeech();
  const option = (severity: Severity) =>
    [severity, t("event.at_least", { severity: markOf(MARKS, severity, t)[1] })] as const;
  return (
    <Choice
      label={t("event.severity")}
      value={value}
      options={SEVERITIES.map(option)}
      onChange={(severity) => replaceQuery({ severity })}
    />
  );
}

export default function Events() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const asked = usePlace().query.get("severity") as Severity;
  const least = SEVERITIES.includes(asked) ? asked : "info";
  const isLive = useIsLive();
  const read = useThing("/api/v1/events", {}, { query: { limit: NEWEST, order: "newest" } });
  const heard = useEvents();
  const older = useOlder(read.data?.data.next);
  const events = useMemo(
    () => mergeEvents(heard, [...older.kept, ...(read.data?.data.items ?? [])]),
    [heard, older.kept, read.data],
  );
  const found = useMemo(
    () =>
      events.filter(
        ({ severity, kind, node, text, objects }) =>
          isAtLeast(severity, least) && matches(search, kind, node, text, ...objects),
      ),
    [events, search, least],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.events")}</h1>
        <Mark tone={isLive ? "good" : "plain"}>{isLive ? t("event.live") : t("event.polled")}</Mark>
        <span className="faint">
          {t("list.count", { shown: formatCount(found.length, locale), all: formatCount(events.length, locale) })}
        </span>
        <span className="space" />
        <SeverityFilter value={least} />
        <Button disabled={!older.hasMore} loading={older.isReading} onClick={() => void older.read(events)}>
          {t("event.older")}
        </Button>
        <Search label={t("event.search")} />
      </div>
      <BigTable
        label={t("screen.events")}
        rows={found}
        columns={shown}
        rowKey="id"
        isLoading={read.isLoading}
        error={read.error ?? older.error}
      />
    </>
  );
}
