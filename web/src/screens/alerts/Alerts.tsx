import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { AlertList } from "./AlertList";
import { ChannelList } from "./ChannelList";
import { SilenceList } from "./SilenceList";

/** `#/alerts`, `#/alerts?tab=silences`, and `#/alerts?tab=channels`. */
export default function Alerts() {
  const { t } = useSpeech();
  const tab = usePlace().query.get("tab") ?? "alerts";
  return (
    <Tabs
      activeKey={tab}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "alerts", label: t("screen.alerts"), children: <AlertList /> },
        { key: "silences", label: t("silence.all"), children: <SilenceList /> },
        { key: "channels", label: t("channel.all"), children: <ChannelList /> },
      ]}
    />
  );
}
