import { Spin } from "antd";
import { memo, useMemo } from "react";
import { useList, useThing } from "../../api/queries";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { formatBytes } from "../../lib/format";
import { rackKey, sickOf } from "../../lib/links";
import type { Sick } from "../../lib/links";
import { placeHref } from "../../lib/router";
import { arrange } from "../../lib/topology";
import type { NodeBox, Rack } from "../../lib/topology";
import type { Node } from "../nodes/NodeList";
import type { Store } from "../nodes/StoreList";

type Kind = "good" | "busy" | "odd" | "bad";

/** A letter beside the colour, for whoever does not tell colours apart. */
const KINDS: Readonly<Record<Kind, { word: Word; sign: string }>> = {
  good: { word: "topology.good", sign: "" },
  busy: { word: "topology.busy", sign: "↻" },
  odd: { word: "topology.odd", sign: "→" },
  bad: { word: "topology.bad", sign: "✕" },
};

function kindOf(store: Store): Kind {
  if (!store.serves) return "bad";
  if (store.draining) return "odd";
  return store.syncing > 0 ? "busy" : "good";
}

function StoreBox({ store }: { store: Store }) {
  const { t } = useSpeech();
  const kind = kindOf(store);
  const size = formatBytes(store.size_bytes);
  const label = t("topology.store", {
    path: store.path,
    size,
    state: t(KINDS[kind].word),
    percent: store.used_percent ?? "?",
  });
  return (
    <a
      className={`store store-${kind}`}
      href={placeHref(["nodes"], { tab: "stores", q: store.id })}
      title={label}
      aria-label={label}
    >
      {KINDS[kind].sign || store.used_percent}
    </a>
  );
}

/** Links of it are bad, and it is to blame for them: who, by what figures, has the list of links. */
function SickNetwork({ search }: { search: string }) {
  const { t } = useSpeech();
  return (
    <a className="severity-error" href={placeHref(["inspection"], { tab: "links", q: search })}>
      {t("link.sick")}
    </a>
  );
}

function NodeView({ box: { node, stores }, isSick }: { box: NodeBox<Node, Store>; isSick: boolean }) {
  const { t } = useSpeech();
  const kind = !node.alive ? " node-gone" : isSick ? " node-sick" : node.maintenance ? " node-maintenance" : "";
  return (
    <div className={`node${kind}`}>
      <div className="node-name">
        <a href={placeHref(["nodes", node.name])}>
          <Name text={node.name} />
        </a>
        {node.alive ? null : <span className="severity-error">{t("node.gone")}</span>}
        {node.maintenance ? <span className="severity-warning">{t("node.maintenance")}</span> : null}
        {isSick ? <SickNetwork search={node.name} /> : null}
        {node.gateway ? <span className="faint">{t("node.gateway")}</span> : null}
      </div>
      <div className="stores">
        {stores.map((store) => (
          <StoreBox key={store.id} store={store} />
        ))}
      </div>
    </div>
  );
}

/** Nodes are read again every few seconds; a rack in which nothing has changed is not drawn anew. */
const RackView = memo(
  function RackView({ site, rack, sick }: { site: string; rack: Rack<Node, Store>; sick: Sick }) {
    const { t } = useSpeech();
    const isSick = rack.name !== "" && sick.racks.has(rackKey(site, rack.name));
    return (
      <section className={isSick ? "rack rack-sick" : "rack"}>
        <h3>
          {rack.name === "" ? t("topology.no_rack") : <Name text={rack.name} />}{" "}
          {isSick ? <SickNetwork search="" /> : null}
        </h3>
        <div className="nodes">
          {rack.nodes.map((box) => (
            <NodeView key={box.node.name} box={box} isSick={sick.nodes.has(box.node.name)} />
          ))}
        </div>
      </section>
    );
  },
  (before, after) => before.sick === after.sick && JSON.stringify(before.rack) === JSON.stringify(after.rack),
);

function Legend() {
  const { t } = useSpeech();
  return (
    <div className="legend">
      {(Object.keys(KINDS) as Kind[]).map((kind) => (
        <span key={kind}>
          <span className={`store store-${kind}`} aria-hidden>
            {KINDS[kind].sign || "%"}
          </span>
          {t(KINDS[kind].word)}
        </span>
      ))}
      <span>
        <span className="severity-error">{t("link.sick")}</span> {t("topology.sick.about")}
      </span>
    </div>
  );
}

export default function Topology() {
  const { t } = useSpeech();
  const search = useSearch();
  const nodes = useList("/api/v1/nodes");
  const stores = useList("/api/v1/stores");
  // A node of an older version cannot say: nothing is marked then.
  const links = useThing("/api/v1/links");
  const parts = links.data?.data.sick;
  const sick = useMemo(() => sickOf(parts ?? []), [parts]);
  const sites = useMemo(() => {
    // Clients hold nothing, and may be many.
    const shown = nodes.items.filter((node) => !node.client && matches(search, node.name, node.site, node.rack));
    return arrange(shown, stores.items);
  }, [nodes.items, stores.items, search]);
  const error = nodes.error ?? stores.error;
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.topology")}</h1>
        <span className="space" />
        <Search label={t("node.search")} />
      </div>
      <Legend />
      {sick.isNetwork ? (
        <p>
          {t("topology.sick.network")} <SickNetwork search="" />
        </p>
      ) : null}
      {error === null ? null : <Problem error={error} />}
      {nodes.isLoading || stores.isLoading ? <Spin aria-label={t("frame.loading")} /> : null}
      <div className="sites">
        {sites.map((site) => (
          <section key={site.name} className="site">
            <h2>{site.name === "" ? t("topology.no_site") : <Name text={site.name} />}</h2>
            <div className="racks">
              {site.racks.map((rack) => (
                <RackView key={rack.name} site={site.name} rack={rack} sick={sick} />
              ))}
            </div>
          </section>
        ))}
      </div>
    </>
  );
}
