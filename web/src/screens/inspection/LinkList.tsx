import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useThing } from "../../api/queries";
import type { Result } from "../../api/call";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatCount } from "../../lib/format";
import { linkRows, lossText, microseconds } from "../../lib/links";
import type { LinkRow } from "../../lib/links";
import { placeHref } from "../../lib/router";
import { LinkMatrix } from "./LinkMatrix";

type Links = Result<"get", "/api/v1/links">;

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
      title: t("link.trouble"),
      width: 170,
      sorter: (a, b) => ORDER.indexOf(a.trouble) - ORDER.indexOf(b.trouble),
      render: (_, { trouble }) => {
        const [tone, word] = TROUBLES[trouble];
        return <Mark tone={tone}>{t(word)}</Mark>;
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

/** How many links are bad, what is to blame, who says nothing, and who is bad to whom. */
function About({ links }: { links: Links }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  const { nodes, measured, bad, sick, silent } = links;
  return (
    <>
      {t("link.summary", { bad: count(bad), measured: count(measured), nodes: count(nodes) })}{" "}
      <a href={placeHref(["settings"])}>{t("link.settings")}</a>
      {sick.map(({ what, evidence }) => (
        <span key={what} className="sick-part">
          <Mark tone="bad">{t("link.sick")}</Mark>
          <Name text={`${what}: ${evidence}`} whole />
        </span>
      ))}
      {silent.length === 0 ? null : <Name whole text={t("link.silent", { nodes: silent.join(", ") })} />}
    </>
  );
}

export function LinkList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { data, isLoading, error } = useThing("/api/v1/links");
  const links = data?.data;
  const items = useMemo(() => linkRows(links?.links ?? []), [links]);
  const found = useMemo(
    () => items.filter(({ from, to, trouble }) => matches(search, from, to, t(TROUBLES[trouble][1]))),
    [items, search, t],
  );
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
    </>
  );
}
