import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { MissingNodes } from "../performance/MissingNodes";
import { TargetLink } from "./TargetList";

/** The most that one answer has: who has more asks the command line, which filters. */
const MOST = 1_000;

interface Session extends Readonly<components["schemas"]["IscsiSession"]> {
  /** Its connection, of all gateways. */
  readonly id: string;
}

function Digests({ session }: { session: Session }) {
  const { t } = useSpeech();
  const { header_digest, data_digest } = session;
  return (
    <span className="labels">
      {header_digest ? <Mark tone="good">{t("session.digest.header")}</Mark> : null}
      {data_digest ? <Mark tone="good">{t("session.digest.data")}</Mark> : null}
    </span>
  );
}

function SessionTarget({ session: { target, iqn } }: { session: Session }) {
  const { t } = useSpeech();
  if (target != null) return <TargetLink name={target} />;
  return iqn == null ? <Mark>{t("session.discovers")}</Mark> : <Name text={iqn} />;
}

function columns(t: Translate, locale: string): TableColumnsType<Session> {
  return [
    {
      title: t("initiator.name"),
      width: 360,
      sorter: (a, b) => a.initiator.localeCompare(b.initiator),
      render: (_, { initiator }) => <Name text={initiator} />,
    },
    { title: "ISID", width: 140, render: (_, { isid }) => isid },
    { title: t("session.target"), width: 200, render: (_, session) => <SessionTarget session={session} /> },
    {
      title: t("session.gateway"),
      width: 160,
      sorter: (a, b) => a.node.localeCompare(b.node),
      render: (_, { node }) => (
        <a href={placeHref(["nodes", node])}>
          <Name text={node} />
        </a>
      ),
    },
    { title: t("session.core"), width: 80, align: "right", render: (_, { core }) => core },
    {
      title: t("session.portal"),
      width: 220,
      render: (_, { portal, tag }) => <Name text={portal == null ? String(tag) : `${portal},${tag}`} />,
    },
    {
      title: t("session.since"),
      width: 180,
      sorter: (a, b) => a.since - b.since,
      render: (_, { since }) => formatTime(since * 1000, locale),
    },
    {
      title: t("session.proof"),
      width: 110,
      render: (_, { proven }) => (proven ? <Mark tone="good">CHAP</Mark> : <Mark>{t("host.proof.none")}</Mark>),
    },
    { title: t("session.digests"), width: 150, render: (_, session) => <Digests session={session} /> },
    {
      title: t("session.under_way"),
      width: 130,
      align: "right",
      sorter: (a, b) => a.under_way - b.under_way,
      render: (_, { under_way, commands }) => t("session.of", { under_way, commands }),
    },
  ];
}

/** Who is logged in by iSCSI, at all gateways. */
export function SessionList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { data, error, isLoading } = useThing("/api/v1/iscsi/sessions", {}, { query: { limit: MOST } });
  const answer = data?.data;
  const items = useMemo(
    () => (answer?.items ?? []).map((one): Session => ({ ...one, id: `${one.node}/${one.core}/${one.number}` })),
    [answer],
  );
  const found = useMemo(
    () =>
      items.filter(({ initiator, target, iqn, node, peer, portal }) =>
        matches(search, initiator, target ?? "", iqn ?? "", node, peer ?? "", portal ?? ""),
      ),
    [items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <ListScreen
        title={t("session.all")}
        search={t("session.search")}
        about={answer?.next == null ? t("session.about") : t("session.more", { count: items.length })}
        list={{ items, isLoading, error }}
        found={found}
        columns={shown}
        rowKey="id"
        empty={t("session.none")}
      />
      <MissingNodes missing={answer?.missing ?? []} />
    </>
  );
}
