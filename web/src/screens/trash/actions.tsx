import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField } from "../../components/fields";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes } from "../../lib/format";
import { goTo } from "../../lib/router";
import type { DeletedVolume } from "./Trash";

interface Props {
  readonly volume: DeletedVolume;
  readonly onClose: () => void;
}

/** The command line takes `.12` for the number 12, whatever volumes are called. */
function number(volume: DeletedVolume): string {
  return `.${volume.id}`;
}

export function Undelete({ volume, onClose }: Props) {
  const { t } = useSpeech();
  const plan = ({ name }: { name: string }) => {
    const as = name === volume.name ? undefined : name;
    return {
      call: call("post", "/api/v1/deleted-volumes/{id}/undelete", {
        params: { path: { id: volume.id } },
        body: as === undefined ? {} : { name: as },
      }),
      command: amitaCommand("volume", "undelete", number(volume), ...(as === undefined ? [] : ["--as", as])),
    };
  };
  return (
    <ActionDialog
      title={t("trash.undelete.title", { name: volume.name })}
      verb={t("trash.undelete")}
      about={t("trash.undelete.about")}
      initial={{ name: volume.name }}
      fields={<NameField label={t("volume.name")} />}
      plan={plan}
      done={({ name }) => (goTo(["volumes", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

export function Purge({ volume, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/deleted-volumes/{id}", { id: volume.id });
  const plan = () => ({
    call: call("delete", "/api/v1/deleted-volumes/{id}", {
      params: { path: { id: volume.id }, header: ifMatch(seen) },
    }),
    command: amitaCommand("volume", "purge", number(volume)),
  });
  return (
    <ActionDialog
      title={t("trash.purge.title", { name: volume.name })}
      verb={t("trash.purge")}
      about={t("trash.purge.about", { size: formatBytes(volume.size_bytes) })}
      initial={{}}
      typed={volume.name}
      danger
      seen={seen}
      plan={plan}
      done={({ held_by }) =>
        held_by.length === 0 ? t("action.done") : t("trash.purge.held", { volumes: held_by.join(", ") })
      }
      onClose={onClose}
    />
  );
}
