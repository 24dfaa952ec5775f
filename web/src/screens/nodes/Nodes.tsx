import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { NodeList } from "./NodeList";
import { NodePage } from "./NodePage";
import { StoreList } from "./StoreList";

/** `#/nodes`, `#/nodes?tab=stores`, and `#/nodes/NAME`. */
export default function Nodes() {
  const { t } = useSpeech();
  const { path, query } = usePlace();
  const name = path[1];
  const tab = query.get("tab") ?? "nodes";
  if (name !== undefined) return <NodePage key={name} name={name} />;
  return (
    <Tabs
      activeKey={tab}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "nodes", label: t("node.nodes"), children: <NodeList /> },
        { key: "stores", label: t("node.stores"), children: <StoreList /> },
      ]}
    />
  );
}
