import { Mark } from "../../components/Mark";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { placeHref } from "../../lib/router";
import { MaintainNode, PlaceNode } from "./actions";
import { RemoveNode } from "./disks";

export type Node = components["schemas"]["Node"];

/** What a node is for. */
export function duty(node: Node, t: Translate): string {
  if (node.client) return t("node.client");
  return node.gateway ? t("node.gateway") : t("node.storage");
}

export function NodeState({ node }: { node: Node }) {
  const { t } = useSpeech();
  return (
    <>
      {node.alive ? <Mark tone="good">{t("node.alive")}</Mark> : <Mark tone="bad">{t("node.gone")}</Mark>}
      {node.maintenance ? <Mark tone="odd">{t("node.maintenance")}</Mark> : null}
      {node.unprotected ? <Mark tone="odd">{t("node.unprotected")}</Mark> : null}
    </>
  );
}

export function NodeActions({ node }: { node: Node }) {
  const { t } = useSpeech();
  const maintenance = node.maintenance ? t("node.maintenance.end") : t("node.maintenance.begin");
  return (
    <span className="row-actions">
      <Act
        size="small"
        may="node.maintenance"
        label={maintenance}
        dialog={(close) => <MaintainNode node={node} onClose={close} />}
      />
      <Act
        size="small"
        may="node.place"
        label={t("node.place")}
        dialog={(close) => <PlaceNode node={node} onClose={close} />}
      />
      {node.alive ? null : (
        <Act
          size="small"
          danger
          may="node.remove"
          label={t("node.remove")}
          dialog={(close) => <RemoveNode node={node} onClose={close} />}
        />
      )}
    </span>
  );
}

function columns(t: Translate): TableColumnsType<Node> {
  return [
    {
      title: t("node.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["nodes", name])}>
          <Name text={name} />
        </a>
      ),
    },
    {
      title: t("node.state"),
      width: 220,
      sorter: (a, b) => Number(a.alive) - Number(b.alive),
      render: (_, node) => <NodeState node={node} />,
    },
    {
      title: t("node.site"),
      width: 130,
      sorter: (a, b) => a.site.localeCompare(b.site),
      render: (_, { site }) => <Name text={site} />,
    },
    {
      title: t("node.rack"),
      width: 130,
      sorter: (a, b) => a.rack.localeCompare(b.rack),
      render: (_, { rack }) => <Name text={rack} />,
    },
    { title: t("node.duty"), width: 110, render: (_, node) => duty(node, t) },
    { title: t("node.cores"), width: 80, align: "right", render: (_, { cores }) => cores },
    { title: t("node.fabric"), width: 180, render: (_, { fabric }) => <Name text={fabric} /> },
    { title: "NVMe/TCP", width: 180, render: (_, { nvme }) => <Name text={nvme ?? ""} /> },
    { title: "iSCSI", width: 180, render: (_, { iscsi }) => <Name text={iscsi.join(", ")} /> },
    { title: "NBD", width: 180, render: (_, { nbd }) => <Name text={nbd ?? ""} /> },
    { title: t("list.actions"), width: 320, render: (_, node) => <NodeActions node={node} /> },
  ];
}

export function NodeList() {
  const { t } = useSpeech();
  const search = useSearch();
  const { items, isLoading, error } = useList("/api/v1/nodes");
  const found = useMemo(
    () => items.filter(({ name, site, rack }) => matches(search, name, site, rack)),
    [items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("node.nodes")}</h1>
        <span className="space" />
        <Search label={t("node.search")} />
      </div>
      <BigTable
        label={t("node.nodes")}
        rows={found}
        columns={shown}
        rowKey="name"
        isLoading={isLoading}
        error={error}
      />
    </>
  );
}
