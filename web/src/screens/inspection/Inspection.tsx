// What an experienced operator would look at, with what was found; and the links between nodes.
import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { BlindList } from "./BlindList";
import { CheckList } from "./CheckList";
import { FindingList } from "./FindingList";
import "./inspection.css";
import { LinkList } from "./LinkList";

/** `#/inspection`, and `#/inspection?tab=links`. */
export default function Inspection() {
  const { t } = useSpeech();
  const tab = usePlace().query.get("tab") ?? "findings";
  return (
    <Tabs
      activeKey={tab}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "findings", label: t("inspection.findings"), children: <FindingList /> },
        { key: "blind", label: t("inspection.blind"), children: <BlindList /> },
        { key: "checks", label: t("inspection.checks"), children: <CheckList /> },
        { key: "links", label: t("link.links"), children: <LinkList /> },
      ]}
    />
  );
}
