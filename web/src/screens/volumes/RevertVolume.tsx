// A volume is made what a snapshot of it is.
import { Checkbox, Form } from "antd";
import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes, formatTime } from "../../lib/format";
import type { Snapshot } from "./SnapshotTree";
import type { Volume } from "./VolumeList";

interface Props {
  readonly volume: Volume;
  readonly snapshot: Snapshot;
  readonly onClose: () => void;
}

function KeepField() {
  const { t } = useSpeech();
  const keep = Form.useWatch("keep") as boolean | undefined;
  return (
    <Form.Item name="keep" valuePropName="checked" extra={keep === false ? t("revert.lost") : t("revert.kept")}>
      <Checkbox>{t("revert.keep")}</Checkbox>
    </Form.Item>
  );
}

export function RevertVolume({ volume, snapshot, onClose }: Props) {
  const { t, locale } = useSpeech();
  const seen = useSeen("/api/v1/volumes/{name}", { name: volume.name });
  const plan = ({ keep }: { keep: boolean }) => ({
    call: call("post", "/api/v1/volumes/{name}/snapshots/{snapshot}/revert", {
      params: {
        path: { name: volume.name, snapshot: snapshot.name },
        header: ifMatch(seen),
      },
      body: { keep_snapshot: keep, dry_run: false },
    }),
    command: amitaCommand("volume", "revert", `${volume.name}@${snapshot.name}`, keep ? undefined : "--no-snapshot"),
  });
  return (
    <ActionDialog
      title={t("revert.title", { volume: volume.name, snapshot: snapshot.name })}
      verb={t("revert.verb")}
      about={t("revert.about", {
        volume: volume.name,
        time: formatTime(snapshot.taken_at * 1000, locale),
        size: formatBytes(snapshot.size_bytes),
        owner: volume.owner ?? t("volume.unused"),
      })}
      initial={{ keep: true }}
      fields={<KeepField />}
      seen={seen}
      typed={volume.name}
      danger
      plan={plan}
      done={({ kept }) => (kept == null ? t("action.done") : t("revert.done", { kept }))}
      onClose={onClose}
    />
  );
}
