import { Checkbox, Form } from "antd";
import { call } from "../../api/call";
import { ifMatch } from "../../api/seen";
import type { components } from "../../api/schema";
import { ActionDialog } from "../../components/ActionDialog";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes, formatTime } from "../../lib/format";
import { goTo } from "../../lib/router";
import { useSeenVolume } from "./changes";
import type { Props } from "./changes";

interface Deletion {
  now: boolean;
  snapshots: boolean;
  force: boolean;
}

function Fields() {
  const { t } = useSpeech();
  const now = Form.useWatch("now") as boolean | undefined;
  return (
    <>
      <Form.Item name="now" valuePropName="checked">
        <Checkbox>{t("volume.delete.now")}</Checkbox>
      </Form.Item>
      <Form.Item name="snapshots" valuePropName="checked" hidden={!now}>
        <Checkbox>{t("volume.delete.snapshots")}</Checkbox>
      </Form.Item>
      <Form.Item name="force" valuePropName="checked">
        <Checkbox>{t("volume.delete.force")}</Checkbox>
      </Form.Item>
    </>
  );
}

/** What has become of it, and what is still to be known of whoever had it open. */
function follows(deleted: components["schemas"]["VolumeDeleted"], t: Translate, locale: string): string {
  const { purge_at, hidden, owner_gone, unheard_node } = deleted;
  const sentences = [
    purge_at == null ? t("action.done") : t("volume.deleted.until", { time: formatTime(purge_at * 1000, locale) }),
    hidden ? t("volume.deleted.hidden") : "",
    owner_gone ? t("volume.deleted.owner_gone") : "",
    unheard_node == null ? "" : t("volume.deleted.unheard", { node: unheard_node }),
  ];
  return sentences.filter((sentence) => sentence !== "").join(" ");
}

export function DeleteVolume({ volume, etag, onClose }: Props) {
  const { t, locale } = useSpeech();
  const seen = useSeenVolume({ volume, etag });
  const plan = ({ now, snapshots, force }: Deletion) => {
    const query = { ...(now ? { now } : {}), ...(now && snapshots ? { snapshots } : {}), ...(force ? { force } : {}) };
    const options = [
      now ? "--now" : undefined,
      now && snapshots ? "--snapshots" : undefined,
      force ? "--force" : undefined,
    ];
    return {
      call: call("delete", "/api/v1/volumes/{name}", {
        params: { path: { name: volume.name }, query, header: ifMatch(seen) },
      }),
      command: amitaCommand("volume", "delete", volume.name, ...options),
    };
  };
  return (
    <ActionDialog
      title={t("volume.delete.title", { name: volume.name })}
      verb={t("volume.delete")}
      about={t("volume.delete.about", {
        size: formatBytes(volume.size_bytes),
        owner: volume.owner ?? t("volume.unused"),
      })}
      initial={{ now: false, snapshots: false, force: false }}
      fields={<Fields />}
      typed={volume.name}
      danger
      seen={seen}
      plan={plan}
      done={(deleted) => (goTo(["volumes"]), follows(deleted, t, locale))}
      onClose={onClose}
    />
  );
}
