// What can be done with snapshots.
import { Checkbox, Form } from "antd";
import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { LabelsField, NameField } from "../../components/fields";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { parseLabels } from "../../lib/labels";
import { goTo } from "../../lib/router";
import type { Snapshot } from "./SnapshotTree";
import type { Volume } from "./VolumeList";

interface Named {
  name: string;
  labels: string;
}

interface Props {
  readonly snapshot: Snapshot;
  readonly onClose: () => void;
}

function labelWords(labels: string): string[] {
  return Object.entries(parseLabels(labels) ?? {}).flatMap(([key, value]) => ["--label", `${key}=${value}`]);
}

function pathOf(snapshot: Snapshot) {
  return { name: snapshot.volume, snapshot: snapshot.name };
}

/** A name that says when: `20260131T020000Z`. */
function nameOfNow(): string {
  return `${new Date().toISOString().replace(/[-:]/g, "").slice(0, 15)}Z`;
}

function NamedFields({ label }: { label: string }) {
  return (
    <>
      <NameField label={label} />
      <LabelsField />
    </>
  );
}

export function TakeSnapshot({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const { t } = useSpeech();
  const plan = ({ name, labels }: Named) => ({
    call: call("post", "/api/v1/volumes/{name}/snapshots", {
      params: { path: { name: volume.name } },
      body: { name, labels: { ...parseLabels(labels) } },
    }),
    command: amitaCommand("volume", "snapshot", "create", volume.name, name, ...labelWords(labels)),
  });
  return (
    <ActionDialog
      title={t("snapshot.take.title", { name: volume.name })}
      verb={t("snapshot.take")}
      about={t("snapshot.take.about")}
      initial={{ name: nameOfNow(), labels: "" }}
      fields={<NamedFields label={t("snapshot.name")} />}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function CloneSnapshot({ snapshot, onClose }: Props) {
  const { t } = useSpeech();
  const plan = ({ name, labels }: Named) => ({
    call: call("post", "/api/v1/volumes/{name}/snapshots/{snapshot}/clones", {
      params: { path: pathOf(snapshot) },
      body: { name, labels: { ...parseLabels(labels) } },
    }),
    command: amitaCommand("volume", "clone", `${snapshot.volume}@${snapshot.name}`, name, ...labelWords(labels)),
  });
  return (
    <ActionDialog
      title={t("snapshot.clone.title", { name: snapshot.name })}
      verb={t("snapshot.clone")}
      about={t("snapshot.clone.about")}
      initial={{ name: "", labels: "" }}
      fields={<NamedFields label={t("snapshot.clone.name")} />}
      plan={plan}
      done={({ name }) => (goTo(["volumes", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

export function ProtectSnapshot({ snapshot, onClose }: Props) {
  const { t } = useSpeech();
  const isProtected = !snapshot.protected;
  const seen = useSeen("/api/v1/volumes/{name}/snapshots/{snapshot}", pathOf(snapshot));
  return (
    <ActionDialog
      title={isProtected ? t("snapshot.protect") : t("snapshot.unprotect")}
      verb={isProtected ? t("snapshot.protect") : t("snapshot.unprotect")}
      about={isProtected ? t("snapshot.protect.about") : t("snapshot.unprotect.about")}
      initial={{}}
      seen={seen}
      plan={() => ({
        call: call("patch", "/api/v1/volumes/{name}/snapshots/{snapshot}", {
          params: { path: pathOf(snapshot), header: ifMatch(seen) },
          body: { protected: isProtected },
        }),
        command: amitaCommand(
          "volume",
          "snapshot",
          "protect",
          snapshot.volume,
          snapshot.name,
          isProtected ? undefined : "--off",
        ),
      })}
      onClose={onClose}
    />
  );
}

function KeepMarkField() {
  const { t } = useSpeech();
  return (
    <Form.Item name="keepMark" valuePropName="checked">
      <Checkbox>{t("snapshot.keep_mark")}</Checkbox>
    </Form.Item>
  );
}

export function DeleteSnapshot({ snapshot, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/volumes/{name}/snapshots/{snapshot}", pathOf(snapshot));
  const plan = ({ keepMark }: { keepMark: boolean }) => ({
    call: call("delete", "/api/v1/volumes/{name}/snapshots/{snapshot}", {
      params: {
        path: pathOf(snapshot),
        query: keepMark ? { keep_mark: true } : {},
        header: ifMatch(seen),
      },
    }),
    command: amitaCommand(
      "volume",
      "snapshot",
      "delete",
      snapshot.volume,
      snapshot.name,
      keepMark ? "--keep-mark" : undefined,
    ),
  });
  return (
    <ActionDialog
      title={t("snapshot.delete.title", { name: snapshot.name, volume: snapshot.volume })}
      verb={t("snapshot.delete")}
      about={snapshot.clones > 0 ? t("snapshot.delete.clones", { count: snapshot.clones }) : t("snapshot.delete.about")}
      initial={{ keepMark: false }}
      fields={snapshot.mark ? null : <KeepMarkField />}
      typed={snapshot.name}
      danger
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}
