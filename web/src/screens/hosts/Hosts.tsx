import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { ExportList } from "./ExportList";
import { HostList } from "./HostList";
import { SubsystemList } from "./SubsystemList";
import { SubsystemPage } from "./SubsystemPage";

/** `#/hosts`, `#/hosts?tab=hosts`, `#/hosts?tab=nbd`, and `#/hosts/SUBSYSTEM`. */
export default function Hosts() {
  const { t } = useSpeech();
  const { path, query } = usePlace();
  const name = path[1];
  if (name !== undefined) return <SubsystemPage key={name} name={name} />;
  return (
    <Tabs
      activeKey={query.get("tab") ?? "subsystems"}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "subsystems", label: t("subsystem.all"), children: <SubsystemList /> },
        { key: "hosts", label: t("host.all"), children: <HostList /> },
        { key: "nbd", label: t("export.all"), children: <ExportList /> },
      ]}
    />
  );
}
