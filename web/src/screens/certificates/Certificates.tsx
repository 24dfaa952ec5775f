// The certificates that are in use, the first that ends first, and how each is renewed.
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useThing } from "../../api/queries";
import { Copyable } from "../../components/Copyable";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { certificateRows } from "../../lib/certificates";
import type { CertificateRow } from "../../lib/certificates";
import { formatCount, formatTime } from "../../lib/format";
import { markOf, wordOf } from "../../lib/known";

/** The page that says what to do when it is too late. */
const DAY2 = "docs/operating/day2/expired-certificate.md";
/** Nodes tell of their certificates once in an hour. */
const EVERY_MS = 60_000;

const STATES: Readonly<Record<CertificateRow["state"], readonly [Tone, Word]>> = {
  well: ["good", "certificate.well"],
  due: ["odd", "certificate.due"],
  late: ["bad", "certificate.late"],
  ended: ["bad", "certificate.ended"],
};
const USES: Readonly<Record<CertificateRow["use"], Word>> = {
  identity: "certificate.identity",
  browser: "certificate.browser",
  authority: "certificate.authority",
};

function Ends({ row }: { row: CertificateRow }) {
  const { t, locale } = useSpeech();
  const [tone, text] = markOf(STATES, row.state, t);
  return (
    <>
      <Mark tone={tone}>{text}</Mark>{" "}
      {row.state === "ended" ? null : t("certificate.days_left", { count: formatCount(row.leftDays, locale) })}
      <Name text={formatTime(row.endsAt * 1000, locale)} />
    </>
  );
}

/** The nodes that have it: the first few, and how many more. */
function nodesOf({ nodes, more }: CertificateRow, t: Translate, locale: string): string {
  const named = nodes.join(", ");
  return more === 0 ? named : t("certificate.more", { nodes: named, count: formatCount(more, locale) });
}

function Marks({ row }: { row: CertificateRow }) {
  const { t } = useSpeech();
  const marks = [
    ["certificate.issuer", row.issuer],
    ["certificate.serial", row.serial],
    ["certificate.fingerprint", row.fingerprint],
  ] as const;
  const known = marks.filter(([, text]) => text !== undefined);
  if (known.length === 0) return t("unknown");
  return known.map(([word, text]) => <Name key={word} text={`${t(word)}: ${text}`} />);
}

function columns(t: Translate, locale: string): TableColumnsType<CertificateRow> {
  return [
    {
      title: t("certificate.ends"),
      width: 240,
      sorter: (a, b) => a.endsAt - b.endsAt,
      render: (_, row) => <Ends row={row} />,
    },
    {
      title: t("certificate.use"),
      width: 190,
      sorter: (a, b) => a.use.localeCompare(b.use),
      render: (_, row) => (
        <>
          {wordOf(USES, row.use, t)}
          {row.role === undefined ? null : <Name text={t("certificate.role", { role: row.role })} />}
        </>
      ),
    },
    {
      title: t("certificate.name"),
      width: 300,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, row) => (
        <>
          <Name text={row.name} />
          <Name text={nodesOf(row, t, locale)} />
        </>
      ),
    },
    {
      title: t("certificate.begins"),
      width: 190,
      render: (_, { beginsAt }) => formatTime(beginsAt * 1000, locale),
    },
    { title: t("certificate.marks"), width: 300, render: (_, row) => <Marks row={row} /> },
    {
      title: t("certificate.renew"),
      width: 420,
      render: (_, { renew, nodes }) =>
        renew === undefined ? (
          t("certificate.renew.own")
        ) : (
          <Copyable label={t("certificate.renew.of", { name: nodes[0] ?? "" })} text={renew} />
        ),
    },
  ];
}

export default function Certificates() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { data, isLoading, error } = useThing("/api/v1/certificates", {}, { everyMs: EVERY_MS });
  const items = useMemo(() => certificateRows(data?.data.certificates ?? []), [data]);
  const found = useMemo(
    () =>
      items.filter(({ name, nodes, issuer, serial, fingerprint, use }) =>
        matches(search, name, nodes.join(" "), issuer, serial, fingerprint, wordOf(USES, use, t)),
      ),
    [items, search, t],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  const unknown = data?.data.not_known ?? [];
  return (
    <ListScreen
      title={t("screen.certificates")}
      search={t("certificate.search")}
      about={
        <>
          {t("certificate.about", { page: DAY2 })}
          {unknown.map(({ node, why }) => (
            <Name key={node} whole text={t("certificate.not_known", { node, why })} />
          ))}
        </>
      }
      list={{ items, isLoading, error }}
      found={found}
      columns={shown}
      rowKey="id"
    />
  );
}
