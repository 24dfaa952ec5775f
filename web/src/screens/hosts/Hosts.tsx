import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { ExportList } from "./ExportList";
import { GatewayList } from "./GatewayList";
import { HostList } from "./HostList";
import { InitiatorList } from "./InitiatorList";
import { SessionList } from "./SessionList";
import { SubsystemList } from "./SubsystemList";
import { SubsystemPage } from "./SubsystemPage";
import { TargetList } from "./TargetList";
import { TargetPage } from "./TargetPage";

/** `#/hosts`, `#/hosts?tab=hosts` (`targets`, `initiators`, `sessions`, `gateways`, `nbd`), `#/hosts/SUBSYSTEM`, and `#/hosts/target/TARGET`. */
export default function Hosts() {
  const { t } = useSpeech();
  const { path, query } = usePlace();
  const [, name, target] = path;
  if (target !== undefined) return <TargetPage key={target} name={target} />;
  if (name !== undefined) return <SubsystemPage key={name} name={name} />;
  return (
    <Tabs
      activeKey={query.get("tab") ?? "subsystems"}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "subsystems", label: t("subsystem.all"), children: <SubsystemList /> },
        { key: "hosts", label: t("host.all"), children: <HostList /> },
        { key: "targets", label: t("target.all"), children: <TargetList /> },
        { key: "initiators", label: t("initiator.all"), children: <InitiatorList /> },
        { key: "sessions", label: t("session.all"), children: <SessionList /> },
        { key: "gateways", label: t("gateway.all"), children: <GatewayList /> },
        { key: "nbd", label: t("export.all"), children: <ExportList /> },
      ]}
    />
  );
}
