import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { NodeList } from "./NodeList";
import { StoreList } from "./StoreList";

/** `#/nodes`, and `#/nodes?tab=stores`. */
export default function Nodes() {
  const { t } = useSpeech();
  const tab = usePlace().query.get("tab") ?? "nodes";
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
