import type { ReactNode } from "react";
import { useSpeech } from "../../i18n";
import { placeHref } from "../../lib/router";
import type { Node } from "../nodes/NodeList";
import type { Store } from "../nodes/StoreList";
import { GroupStates } from "../pools/parts";
import type { Pool } from "../pools/parts";

function Card({
  title,
  to,
  figure,
  children,
}: {
  title: string;
  to: readonly string[];
  figure: string;
  children: ReactNode;
}) {
  return (
    <section className="card">
      <h2>
        <a href={placeHref(to)}>{title}</a>
      </h2>
      <div className="figure">{figure}</div>
      {children}
    </section>
  );
}

/** How many of what there are, and how many of them are well. */
export function Counts({
  nodes,
  stores,
  pools,
}: {
  nodes: readonly Node[];
  stores: readonly Store[];
  pools: readonly Pool[];
}) {
  const { t } = useSpeech();
  const members = nodes.filter(({ client }) => !client);
  const alive = members.filter((node) => node.alive).length;
  const serving = stores.filter((store) => store.serves).length;
  const maintained = members.filter((node) => node.maintenance).length;
  const draining = stores.filter((store) => store.draining).length;
  return (
    <>
      <Card title={t("node.nodes")} to={["nodes"]} figure={`${alive} / ${members.length}`}>
        {t("overview.nodes", { gone: members.length - alive, maintained })}
      </Card>
      <Card title={t("node.stores")} to={["topology"]} figure={`${serving} / ${stores.length}`}>
        {t("overview.stores", { away: stores.length - serving, draining })}
      </Card>
      {pools.slice(0, 6).map((pool) => (
        <Card
          key={pool.name}
          title={t("overview.pool", { name: pool.name })}
          to={["pools", pool.name]}
          figure={`${pool.fullest_percent ?? "?"} %`}
        >
          <div className="faint">{t("pool.fullest")}</div>
          <GroupStates counts={pool.group_counts} />
        </Card>
      ))}
    </>
  );
}
