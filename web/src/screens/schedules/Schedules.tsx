import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { PolicyList } from "./PolicyList";
import { PolicyPage } from "./PolicyPage";
import { SetList } from "./SetList";

/** `#/schedules`, `#/schedules?tab=sets`, and `#/schedules/POLICY`. */
export default function Schedules() {
  const { t } = useSpeech();
  const { path, query } = usePlace();
  const name = path[1];
  if (name !== undefined) return <PolicyPage key={name} name={name} />;
  return (
    <Tabs
      activeKey={query.get("tab") ?? "policies"}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "policies", label: t("policy.all"), children: <PolicyList /> },
        { key: "sets", label: t("set.all"), children: <SetList /> },
      ]}
    />
  );
}
