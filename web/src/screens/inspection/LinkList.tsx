import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useThing } from "../../api/queries";
import { BigTable } from "../../components/BigTable";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatCount } from "../../lib/format";
import { markOf } from "../../lib/known";
import { leftOf, linkRows, lossText, microseconds, networkText } from "../../lib/links";
import type { LeftLinks, LinkRow, Links, SickPart } from "../../lib/links";
import { placeHref } from "../../lib/router";
import { LinkMatrix } from "./LinkMatrix";

const TROUBLES: Readonly<Record<LinkRow["trouble"], readonly [Tone, Word]>> = {
  cut: ["bad", "link.cut"],
  loss: ["odd", "link.loss"],
  late: ["odd", "link.late"],
};
const ORDER = Object.keys(TROUBLES);

function NodeLink({ name }: { name: string }) {
  return (
    <a href={placeHref(["nodes", name])}>
      <Name text={name} />
    </a>
  );
}

/** Of a link by which nothing gets through no figure says anything. */
function figures({ trouble, lost, sent, loss_ppm }: LinkRow, t: Translate, locale: string): string {
  if (trouble === "cut") return t("link.nothing");
  const count = (value: number) => formatCount(value, locale);
  return t("link.lost_of", { share: lossText(loss_ppm), lost: count(lost), sent: count(sent) });
}

function roundTrip({ round_trip_us, least_us }: LinkRow, t: Translate): string {
  if (round_trip_us === 0) return t("unknown");
  return t("link.round_trip.now", { now: microseconds(round_trip_us), least: microseconds(least_us) });
}

function columns(t: Translate, locale: string): TableColumnsType<LinkRow> {
  return [
    {
      title: t("link.from"),
      width: 200,
      sorter: (a, b) => a.from.localeCompare(b.from),
      render: (_, { from }) => <NodeLink name={from} />,
    },
    {
      title: t("link.to"),
      width: 200,
      sorter: (a, b) => a.to.localeCompare(b.to),
      render: (_, { to }) => <NodeLink name={to} />,
    },
    {
      title: t("link.network"),
      width: 120,
      sorter: (a, b) => networkText(a.network, t).localeCompare(networkText(b.network, t)),
      render: (_, { network }) => networkText(network, t),
    },
    {
      title: t("link.trouble"),
      width: 170,
      sorter: (a, b) => ORDER.indexOf(a.trouble) - ORDER.indexOf(b.trouble),
      render: (_, { trouble }) => {
        const [tone, text] = markOf(TROUBLES, trouble, t);
        return <Mark tone={tone}>{text}</Mark>;
      },
    },
    {
      title: t("link.lost"),
      width: 260,
      sorter: (a, b) => a.loss_ppm - b.loss_ppm,
      render: (_, row) => figures(row, t, locale),
    },
    {
      title: t("link.round_trip"),
      width: 240,
      sorter: (a, b) => a.round_trip_us - b.round_trip_us,
      render: (_, row) => roundTrip(row, t),
    },
  ];
}

/** What is to blame; of what was left, of which network that is. */
function Sick({ parts, tone }: { parts: readonly SickPart[]; tone: Tone }) {
  const { t } = useSpeech();
  return parts.map((part) => {
    const { network, what, evidence } = part;
    const said = `${what}: ${evidence}`;
    return (
      <span key={`${network ?? ""} ${what}`} className="sick-part">
        <Mark tone={tone}>{t("link.sick")}</Mark>
        <Name text={network == null ? said : `${networkText(network, t)}: ${said}`} whole />
      </span>
    );
  });
}

/** How many links are bad, what is to blame, who says nothing, and who is bad to whom. */
function About({ links }: { links: Links }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  const { nodes, measured, bad, sick, silent } = links;
  const left = leftOf(links).bad;
  return (
    <>
      {t("link.summary", { bad: count(bad), measured: count(measured), nodes: count(nodes) })}{" "}
      {left === 0 ? "" : t("link.left.summary", { count: count(left) })}{" "}
      <a href={placeHref(["settings"])}>{t("link.settings")}</a>
      <Sick parts={sick} tone="bad" />
      {silent.length === 0 ? null : <Name whole text={t("link.silent", { nodes: silent.join(", ") })} />}
    </>
  );
}

interface LeftProps {
  readonly left: LeftLinks;
  readonly rows: readonly LinkRow[];
  readonly columns: TableColumnsType<LinkRow>;
}

/** What nobody suffers from: links that are bad, and that their senders have left. */
function Left({ left, rows, columns }: LeftProps) {
  const { t } = useSpeech();
  if (left.bad === 0 && left.links.length === 0) return null;
  return (
    <section className="card">
      <h2>{t("link.left")}</h2>
      <p className="faint">
        {t("link.left.about")}
        <Sick parts={left.sick} tone="odd" />
      </p>
      <BigTable label={t("link.left")} rows={rows} columns={columns} rowKey="id" isLoading={false} error={null} />
    </section>
  );
}

export function LinkList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { data, isLoading, error } = useThing("/api/v1/links");
  const links = data?.data;
  const items = useMemo(() => linkRows(links?.links ?? []), [links]);
  const left = useMemo(() => leftOf(links), [links]);
  const [found, foundLeft] = useMemo(() => {
    const isFound = (row: LinkRow) =>
      matches(search, row.from, row.to, markOf(TROUBLES, row.trouble, t)[1], networkText(row.network, t));
    return [items.filter(isFound), linkRows(left.links).filter(isFound)];
  }, [items, left, search, t]);
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <ListScreen
        title={t("link.links")}
        search={t("link.search")}
        about={links === undefined ? undefined : <About links={links} />}
        list={{ items, isLoading, error }}
        found={found}
        columns={shown}
        rowKey="id"
      />
      <LinkMatrix links={found} />
      <Left left={left} rows={foundLeft} columns={shown} />
    </>
  );
}
