import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { isGateway } from "../../lib/iscsi";
import { placeHref } from "../../lib/router";
import { NodeState } from "../nodes/NodeList";
import type { Node } from "../nodes/NodeList";

interface Gateway extends Node {
  /** So many targets it serves. */
  readonly serves: number;
}

function columns(t: Translate): TableColumnsType<Gateway> {
  return [
    {
      title: t("node.name"),
      width: 220,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["nodes", name])}>
          <Name text={name} />
        </a>
      ),
    },
    { title: t("node.state"), width: 180, render: (_, node) => <NodeState node={node} /> },
    {
      title: t("gateway.group"),
      width: 140,
      align: "right",
      sorter: (a, b) => (a.iscsi_tag ?? 0) - (b.iscsi_tag ?? 0),
      render: (_, { iscsi_tag }) => iscsi_tag,
    },
    { title: t("target.portals"), width: 420, render: (_, { iscsi }) => <Name text={iscsi.join(", ")} /> },
    {
      title: t("target.all"),
      width: 140,
      align: "right",
      sorter: (a, b) => a.serves - b.serves,
      render: (_, { serves }) => serves,
    },
  ];
}

/** The nodes that speak iSCSI: each is one portal group. */
export function GatewayList() {
  const { t } = useSpeech();
  const search = useSearch();
  const nodes = useList("/api/v1/nodes");
  const targets = useList("/api/v1/targets");
  const gateways = useMemo(() => {
    const open = targets.items.filter((target) => target.gateways.length === 0).length;
    const named = targets.items.filter((target) => target.gateways.length > 0);
    const speaking = nodes.items.filter(({ iscsi }) => iscsi.length > 0);
    return speaking.map((node): Gateway => {
      const own = named.filter((target) => isGateway(target, node.name)).length;
      return { ...node, serves: open + own };
    });
  }, [nodes.items, targets.items]);
  const found = useMemo(
    () => gateways.filter(({ name, iscsi }) => matches(search, name, ...iscsi)),
    [gateways, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("gateway.all")}
      search={t("gateway.search")}
      about={t("gateway.about")}
      list={{ ...nodes, items: gateways }}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("gateway.first")}
    />
  );
}
