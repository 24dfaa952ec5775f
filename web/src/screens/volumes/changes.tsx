// What can be done to a volume. Each names what was seen (`If-Match`): where somebody was faster, nothing is done.
import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { LabelsField, NameField, readSize, SizeField } from "../../components/fields";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesArgument, formatBytes } from "../../lib/format";
import { labelChange, parseLabels, writeLabels } from "../../lib/labels";
import { goTo } from "../../lib/router";
import type { Volume } from "./VolumeList";

export interface Props {
  readonly volume: Volume;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The volume that the page shows. */
export function useSeenVolume({ volume, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/volumes/{name}", { name: volume.name }, { shown: { data: volume, etag } });
}

function params(name: string, seen: Seen) {
  return { path: { name }, header: ifMatch(seen) };
}

export function GrowVolume({ volume, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenVolume({ volume, etag });
  const plan = ({ size }: { size: string }) => {
    const size_bytes = readSize(size) ?? 0;
    return {
      call: call("patch", "/api/v1/volumes/{name}", { params: params(volume.name, seen), body: { size_bytes } }),
      command: amitaCommand("volume", "resize", volume.name, "--size", bytesArgument(size_bytes)),
    };
  };
  return (
    <ActionDialog
      title={t("volume.grow.title", { name: volume.name })}
      verb={t("volume.grow")}
      about={t("volume.grow.about", { size: formatBytes(volume.size_bytes) })}
      initial={{ size: bytesArgument(volume.size_bytes) }}
      fields={<SizeField above={volume.size_bytes} />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function RenameVolume({ volume, onClose }: Omit<Props, "etag">) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("volume.rename.title", { name: volume.name })}
      verb={t("volume.rename")}
      about={t("volume.rename.about")}
      initial={{ name: volume.name }}
      fields={<NameField label={t("volume.new_name")} />}
      plan={({ name }) => ({
        call: call("post", "/api/v1/volumes/{name}/rename", {
          params: { path: { name: volume.name } },
          body: { name },
        }),
        command: amitaCommand("volume", "rename", volume.name, name),
      })}
      done={({ name }) => (goTo(["volumes", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

export function LabelVolume({ volume, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenVolume({ volume, etag });
  const plan = ({ labels }: { labels: string }) => {
    const change = labelChange(volume.labels, parseLabels(labels) ?? volume.labels);
    const words = Object.entries(change).map(([key, value]) => (value === null ? `${key}-` : `${key}=${value}`));
    return {
      call: call("patch", "/api/v1/volumes/{name}", { params: params(volume.name, seen), body: { labels: change } }),
      command: amitaCommand("volume", "label", volume.name, ...words),
    };
  };
  return (
    <ActionDialog
      title={t("volume.label.title", { name: volume.name })}
      verb={t("volume.label")}
      initial={{ labels: writeLabels(volume.labels) }}
      fields={<LabelsField />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function ProtectVolume({ volume, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenVolume({ volume, etag });
  const isProtected = !volume.protected;
  return (
    <ActionDialog
      title={
        isProtected
          ? t("volume.protect.title", { name: volume.name })
          : t("volume.unprotect.title", { name: volume.name })
      }
      verb={isProtected ? t("volume.protect") : t("volume.unprotect")}
      about={isProtected ? t("volume.protect.about") : t("volume.unprotect.about")}
      initial={{}}
      seen={seen}
      plan={() => ({
        call: call("patch", "/api/v1/volumes/{name}", {
          params: params(volume.name, seen),
          body: { protected: isProtected },
        }),
        command: amitaCommand("volume", "protect", volume.name, isProtected ? undefined : "--off"),
      })}
      onClose={onClose}
    />
  );
}
