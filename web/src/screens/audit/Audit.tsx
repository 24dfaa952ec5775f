// Who did what: for whoever may read the audit log.
import { useMutation } from "@tanstack/react-query";
import { Button } from "antd";
import type { TableColumnsType } from "antd";
import { useEffect, useMemo, useState } from "react";
import { useThing } from "../../api/queries";
import { BigTable } from "../../components/BigTable";
import { Choice } from "../../components/Choice";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { foldAudit } from "../../lib/audit";
import type { AuditRow } from "../../lib/audit";
import { saveFile } from "../../lib/file";
import { formatCount, formatTime } from "../../lib/format";
import { replaceQuery, usePlace } from "../../lib/router";
import { MOST_SAVED, readAll, useAudit } from "./useAudit";
import type { Wanted } from "./useAudit";

const TONES: Readonly<Record<string, Tone>> = {
  begun: "busy",
  done: "good",
  failed: "bad",
  unknown: "odd",
  refused: "odd",
};
const HOUR_MS = 3_600_000;
const AGES: Readonly<Record<string, readonly [number, Word]>> = {
  hour: [HOUR_MS, "audit.since.hour"],
  day: [24 * HOUR_MS, "audit.since.day"],
  week: [7 * 24 * HOUR_MS, "audit.since.week"],
  month: [30 * 24 * HOUR_MS, "audit.since.month"],
  all: [0, "audit.since.all"],
};
const USUAL_AGE = "day";
/** So many pieces of 1,000 are read by themselves; more when somebody says so. */
const PIECES = 5;
/** A pause of so long ends a word. */
const PAUSE_MS = 300;

function columns(t: Translate, locale: string): TableColumnsType<AuditRow> {
  return [
    {
      title: t("event.time"),
      width: 190,
      sorter: (a, b) => a.number - b.number,
      render: (_, { at_ms }) => formatTime(at_ms, locale),
    },
    { title: t("audit.who"), width: 220, render: (_, { who, role }) => <Name text={`${who} (${role})`} /> },
    { title: t("audit.action"), width: 180, render: (_, { action }) => <Name text={action} /> },
    { title: t("audit.object"), width: 260, render: (_, { object }) => <Name text={object} /> },
    {
      title: t("audit.outcome"),
      width: 150,
      render: (_, { outcome, took_ms }) => (
        <>
          <Mark tone={TONES[outcome] ?? "plain"}>{outcome}</Mark>
          {took_ms === undefined ? "" : `${formatCount(took_ms, locale)} ms`}
        </>
      ),
    },
    {
      title: t("audit.from"),
      width: 200,
      render: (_, { host, address }) => <Name text={[host, address ?? ""].filter((part) => part !== "").join(", ")} />,
    },
    { title: t("audit.text"), width: 400, render: (_, { text }) => <Name text={text} whole /> },
    { title: t("audit.number"), width: 100, align: "right", render: (_, { number }) => number },
  ];
}

/** What is in the address, so that a search can be linked to. The clock is read once for each age that is chosen. */
function useWanted(): { wanted: Wanted; age: string } {
  const { query } = usePlace();
  const asked = query.get("since") ?? USUAL_AGE;
  const age = asked in AGES ? asked : USUAL_AGE;
  const who = query.get("who") ?? "";
  const action = query.get("action") ?? "";
  const since = useMemo(() => (age === "all" ? 0 : Date.now() - AGES[age]![0]), [age]);
  return useMemo(() => ({ wanted: { who, action, since }, age }), [who, action, since, age]);
}

interface FilterProps {
  readonly label: string;
  readonly placeholder: string;
  /** The name in the address. */
  readonly name: "who" | "action";
  readonly value: string;
}

/** The log is asked when whoever types has paused. */
function Filter({ label, placeholder, name, value }: FilterProps) {
  const [text, setText] = useState(value);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => replaceQuery({ [name]: text }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [name, text, value]);
  return (
    <input
      className="field"
      aria-label={label}
      placeholder={placeholder}
      value={text}
      spellCheck={false}
      onChange={(event) => setText(event.target.value)}
    />
  );
}

function Filters({ wanted, age }: { wanted: Wanted; age: string }) {
  const { t } = useSpeech();
  return (
    <>
      <Choice
        label={t("audit.since")}
        value={age}
        options={Object.entries(AGES).map(([name, [, word]]) => [name, t(word)] as const)}
        onChange={(since) => replaceQuery({ since })}
      />
      <Filter label={t("audit.who")} placeholder={t("audit.who.filter")} name="who" value={wanted.who} />
      <Filter label={t("audit.action")} placeholder={t("audit.action.filter")} name="action" value={wanted.action} />
    </>
  );
}

function Export({ wanted }: { wanted: Wanted }) {
  const { t, locale } = useSpeech();
  const work = useMutation({
    mutationFn: () => readAll(wanted),
    onSuccess: ({ records }) => saveFile("amita-audit.json", "application/json", JSON.stringify(records, null, 2)),
    gcTime: 0,
  });
  return (
    <>
      <Button loading={work.isPending} onClick={() => work.mutate()}>
        {t("audit.export")}
      </Button>
      {work.isError ? <Problem error={work.error} /> : null}
      {work.data?.isCut ? <span>{t("audit.cut", { count: formatCount(MOST_SAVED, locale) })}</span> : null}
    </>
  );
}

function Log() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { wanted, age } = useWanted();
  const { records, data, isLoading, isFetching, isError, error, hasNextPage, fetchNextPage } = useAudit(wanted);
  const goesOn = hasNextPage && !isFetching && !isError && (data?.pages.length ?? 0) < PIECES;
  useEffect(() => {
    if (goesOn) void fetchNextPage();
  }, [goesOn, fetchNextPage]);
  const rows = useMemo(() => foldAudit(records), [records]);
  const found = useMemo(
    () => rows.filter(({ who, action, object, text, outcome }) => matches(search, who, action, object, text, outcome)),
    [rows, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.audit")}</h1>
        <span className="faint">
          {t("list.count", { shown: formatCount(found.length, locale), all: formatCount(rows.length, locale) })}
        </span>
        <span className="space" />
        <Filters wanted={wanted} age={age} />
        <Search label={t("audit.search")} />
        <Export wanted={wanted} />
      </div>
      <p className="faint">
        {hasNextPage && !goesOn ? (
          <>
            {t("audit.more")}{" "}
            <Button size="small" loading={isFetching} onClick={() => void fetchNextPage()}>
              {t("audit.read_on")}
            </Button>
          </>
        ) : (
          t("audit.about")
        )}
      </p>
      <BigTable
        label={t("screen.audit")}
        rows={found}
        columns={shown}
        rowKey="number"
        isLoading={isLoading}
        error={error}
      />
    </>
  );
}

export default function Audit() {
  const { t } = useSpeech();
  const self = useThing("/api/v1/self");
  if (self.error !== null) return <Problem error={self.error} />;
  if (self.data?.data.may.includes("audit.read")) return <Log />;
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.audit")}</h1>
      </div>
      {self.data === undefined ? null : <p>{t("action.not_allowed", { action: "audit.read" })}</p>}
    </>
  );
}
