import { Spin } from "antd";
import { useMemo } from "react";
import { useList, useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { addressesOf } from "../../lib/addresses";
import { formatBytes } from "../../lib/format";
import { wordOf } from "../../lib/known";
import { leftOf, lossText, microseconds, networkText } from "../../lib/links";
import type { BadLink } from "../../lib/links";
import { placeHref } from "../../lib/router";
import { DrainNode } from "./actions";
import { duty, NodeActions, NodeState } from "./NodeList";
import type { Node } from "./NodeList";
import { StoreTable } from "./StoreList";
import type { Store } from "./StoreList";

const ADDRESS_WORDS: Readonly<Record<string, Word>> = {
  fabric: "node.fabric",
  api: "node.api",
  metrics: "node.metrics",
  nbd_socket: "node.nbd_socket",
};
/** What has a name of its own in every language. */
const ADDRESS_NAMES: Readonly<Record<string, string>> = { nvme: "NVMe/TCP", iscsi: "iSCSI", nbd: "NBD" };

function Facts({ node, stores }: { node: Node; stores: number }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <h2>{t("volume.facts")}</h2>
      <Pairs
        pairs={[
          [t("node.state"), <NodeState node={node} />],
          [t("node.duty"), duty(node, t)],
          [t("volume.id"), node.id],
          [t("node.site"), <Name text={node.site === "" ? t("topology.no_site") : node.site} whole />],
          [t("node.rack"), <Name text={node.rack === "" ? t("topology.no_rack") : node.rack} whole />],
          [t("node.cores"), node.cores],
          [t("node.stores"), stores],
        ]}
      />
      <p className="row-actions">
        <a href={placeHref(["performance"], { object: `node/${node.name}` })}>{t("screen.performance")}</a>
        <a href={placeHref(["events"], { q: node.name })}>{t("screen.events")}</a>
        <a href={placeHref(["inspection"], { q: node.name })}>{t("screen.inspection")}</a>
        <a href={placeHref(["topology"], { q: node.name })}>{t("screen.topology")}</a>
      </p>
    </section>
  );
}

function Addresses({ node }: { node: Node }) {
  const { t } = useSpeech();
  const label = (field: string) => {
    const word = ADDRESS_WORDS[field];
    return ADDRESS_NAMES[field] ?? (word === undefined ? t("node.address.more", { field }) : t(word));
  };
  return (
    <section className="card">
      <h2>{t("node.addresses")}</h2>
      <Pairs
        pairs={addressesOf(node).map(({ field, where }) => [
          label(field),
          <>
            {where.map((one) => (
              <div key={one}>
                <Name text={one} whole />
              </div>
            ))}
          </>,
        ])}
      />
    </section>
  );
}

const TROUBLES: Readonly<Record<BadLink["trouble"], Word>> = {
  cut: "link.cut",
  loss: "link.loss",
  late: "link.late",
};

/** What ails the link from here to there, or from there to here. */
function LinkLine({ link }: { link: BadLink }) {
  const { t } = useSpeech();
  const { from, to, network, trouble, loss_ppm, round_trip_us } = link;
  const figure = trouble === "late" ? microseconds(round_trip_us) : lossText(loss_ppm);
  return (
    <li>
      <Name text={`${from} → ${to}`} whole />: {wordOf(TROUBLES, trouble, t)}
      {trouble === "cut" ? null : `, ${figure}`}
      {network == null ? null : `, ${networkText(network, t)}`}
    </li>
  );
}

/** So many are shown; the rest has the list of links. */
const MOST_LINKS = 8;

function LinkLines({ links }: { links: readonly BadLink[] }) {
  return (
    <ul className="facts">
      {links.slice(0, MOST_LINKS).map((link) => (
        <LinkLine key={`${link.from} ${link.to} ${link.network}`} link={link} />
      ))}
    </ul>
  );
}

function Links({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data } = useThing("/api/v1/links");
  // A node of an older version cannot say: nothing is said then.
  if (data === undefined) return null;
  const { links, silent, sick } = data.data;
  const isOwn = ({ from, to }: BadLink) => from === name || to === name;
  const own = links.filter(isOwn);
  const left = leftOf(data.data).links.filter(isOwn);
  const isBlamed = sick.some(({ kind, names }) => kind === "node" && names.includes(name));
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("node.links")}</h2>
        {isBlamed ? <Mark tone="bad">{t("link.sick")}</Mark> : null}
      </div>
      {silent.includes(name) ? <p>{t("node.links.silent")}</p> : null}
      {own.length === 0 ? <p>{t("node.links.none")}</p> : null}
      <LinkLines links={own} />
      {left.length === 0 ? null : (
        <>
          <h3>{t("link.left")}</h3>
          <LinkLines links={left} />
        </>
      )}
      <a href={placeHref(["inspection"], { tab: "links", q: own.length + left.length === 0 ? "" : name })}>
        {t("proposal.links")}
      </a>
    </section>
  );
}

/** All of its stores are drained; where all are, all are used again. */
function DrainAll({ name, stores }: { name: string; stores: readonly Store[] }) {
  const { t } = useSpeech();
  if (stores.length === 0) return null;
  const used = stores.filter((store) => !store.draining);
  const draining = used.length > 0;
  return (
    <Act
      size="small"
      may="disk.drain"
      label={t(draining ? "node.drain" : "node.undrain")}
      dialog={(close) => (
        <DrainNode node={name} stores={draining ? used : stores} draining={draining} onClose={close} />
      )}
    />
  );
}

/** A node: what it is, where it is reached, how its links are, and what it holds. */
export function NodePage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/nodes/{name}", { name });
  const stores = useList("/api/v1/stores", {}, { node: name });
  const node = data?.data;
  const size = useMemo(() => stores.items.reduce((sum, store) => sum + store.size_bytes, 0), [stores.items]);
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["nodes"])}>{t("screen.nodes")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {node === undefined ? null : <NodeActions node={node} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {node === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {node === undefined ? null : (
        <div className="cards">
          <Facts node={node} stores={stores.items.length} />
          <Addresses node={node} />
          {node.client ? null : <Links name={name} />}
        </div>
      )}
      {node === undefined || node.client ? null : (
        <>
          <div className="screen-head">
            <h2>{t("node.stores")}</h2>
            <span className="faint">{formatBytes(size)}</span>
            <span className="space" />
            <DrainAll name={name} stores={stores.items} />
          </div>
          <StoreTable list={stores} found={stores.items} />
        </>
      )}
    </>
  );
}
