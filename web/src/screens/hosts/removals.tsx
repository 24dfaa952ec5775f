// What takes something from hosts: it is told what they lose, and a name has to be typed.
import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import type { Host } from "./HostList";
import type { Subsystem } from "./SubsystemList";

interface Removed {
  /** The name of the subsystem. */
  readonly subsystem: string;
  readonly nsid: number;
  /** The volume, or VOLUME@SNAPSHOT; undefined: it was deleted. */
  readonly object: string | undefined;
  readonly onClose: () => void;
}

export function RemoveNamespace({ subsystem, nsid, object, onClose }: Removed) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("namespace.remove.title", { name: object ?? nsid, subsystem })}
      verb={t("namespace.remove")}
      about={t("namespace.remove.about")}
      initial={{}}
      typed={object ?? String(nsid)}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/subsystems/{name}/namespaces/{nsid}", {
          params: { path: { name: subsystem, nsid } },
        }),
        command: amitaCommand("namespace", "remove", subsystem, String(nsid)),
      })}
      onClose={onClose}
    />
  );
}

export function DenyHost({ subsystem, nqn, onClose }: { subsystem: Subsystem; nqn: string; onClose: () => void }) {
  const { t } = useSpeech();
  const { name, any_host, namespaces } = subsystem;
  return (
    <ActionDialog
      title={t("host.deny.title", { name: nqn, subsystem: name })}
      verb={t("host.deny")}
      about={any_host ? t("host.deny.any") : t("host.deny.about", { namespaces })}
      initial={{}}
      typed={nqn}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/subsystems/{name}/hosts/{nqn}", { params: { path: { name, nqn } } }),
        command: amitaCommand("host", "deny", name, nqn),
      })}
      onClose={onClose}
    />
  );
}

export function RemoveHost({ host, onClose }: { host: Host; onClose: () => void }) {
  const { t } = useSpeech();
  const { nqn, subsystems } = host;
  const seen = useSeen("/api/v1/hosts/{nqn}", { nqn });
  const plan = ({ force }: { force: boolean }) => ({
    call: call("delete", "/api/v1/hosts/{nqn}", {
      params: { path: { nqn }, query: force ? { force } : {}, header: ifMatch(seen) },
    }),
    command: amitaCommand("host", "remove", nqn, force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={t("host.remove.title", { name: nqn })}
      verb={t("host.remove")}
      about={
        subsystems.length === 0
          ? t("host.remove.about")
          : t("host.remove.about.allowed", { subsystems: subsystems.join(", ") })
      }
      initial={{ force: false }}
      fields={subsystems.length === 0 ? null : <CheckField name="force" label={t("host.remove.force")} />}
      typed={nqn}
      danger
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}
