// What can be done with subsystems.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField } from "../../components/fields";
import { CheckField, NamesField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { goTo } from "../../lib/router";
import { subsystemChange } from "../../lib/subsystems";
import type { Doors } from "../../lib/subsystems";
import type { Subsystem } from "./SubsystemList";

/** The names of the nodes that serve NVMe. */
export function useNvmeNodes(): string[] {
  const nodes = useList("/api/v1/nodes");
  return nodes.items.filter(({ nvme }) => nvme != null).map(({ name }) => name);
}

function GatewaysField() {
  const { t } = useSpeech();
  const names = useNvmeNodes();
  return (
    <NamesField
      name="gateways"
      label={t("subsystem.gateways")}
      about={t("subsystem.gateways.about")}
      names={names}
      isMany
    />
  );
}

interface NewSubsystem {
  name: string;
  nqn: string;
  gateways: string[];
  anyHost: boolean;
  tls: boolean;
}

export function CreateSubsystem({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = ({ name, nqn, gateways, anyHost, tls }: NewSubsystem) => ({
    call: call("post", "/api/v1/subsystems", {
      body: { name, nqn: nqn === "" ? null : nqn, gateways, any_host: anyHost, tls_required: tls },
    }),
    command: amitaCommand(
      ...["subsystem", "create", name],
      ...(nqn === "" ? [] : ["--nqn", nqn]),
      ...gateways.flatMap((node) => ["--gateway", node]),
      anyHost ? "--any-host" : undefined,
      tls ? "--require-tls" : undefined,
    ),
  });
  return (
    <ActionDialog
      title={t("subsystem.create")}
      verb={t("action.create")}
      about={t("subsystem.create.about")}
      initial={{ name: "", nqn: "", gateways: [], anyHost: false, tls: false } as NewSubsystem}
      fields={
        <>
          <NameField label={t("subsystem.name")} />
          <TextField name="nqn" label={t("subsystem.nqn")} about={t("subsystem.nqn.about")} />
          <GatewaysField />
          <CheckField name="anyHost" label={t("subsystem.any_host.set")} />
          <CheckField name="tls" label={t("subsystem.tls.set")} />
        </>
      }
      plan={plan}
      done={({ name }) => (goTo(["hosts", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

export interface Props {
  readonly subsystem: Subsystem;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The subsystem that the page shows. */
function useSeenSubsystem({ subsystem, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/subsystems/{name}", { name: subsystem.name }, { shown: { data: subsystem, etag } });
}

export function SetSubsystem({ subsystem, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenSubsystem({ subsystem, etag });
  const { name, gateways, any_host, tls_required } = subsystem;
  const plan = (wanted: Doors) => {
    const { body, command } = subsystemChange(name, subsystem, wanted);
    const params = { path: { name }, header: ifMatch(seen) };
    return { call: call("patch", "/api/v1/subsystems/{name}", { params, body }), command };
  };
  return (
    <ActionDialog
      title={t("subsystem.set.title", { name })}
      verb={t("action.change")}
      about={t("subsystem.set.about")}
      initial={{ gateways, any_host, tls_required } as Doors}
      fields={
        <>
          <GatewaysField />
          <CheckField name="any_host" label={t("subsystem.any_host.set")} about={t("subsystem.any_host.about")} />
          <CheckField name="tls_required" label={t("subsystem.tls.set")} about={t("subsystem.tls.about")} />
        </>
      }
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function DeleteSubsystem({ subsystem, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenSubsystem({ subsystem, etag });
  const { name, namespaces, hosts } = subsystem;
  const plan = ({ force }: { force: boolean }) => ({
    call: call("delete", "/api/v1/subsystems/{name}", {
      params: { path: { name }, query: force ? { force } : {}, header: ifMatch(seen) },
    }),
    command: amitaCommand("subsystem", "delete", name, force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={t("subsystem.delete.title", { name })}
      verb={t("subsystem.delete")}
      about={t("subsystem.delete.about", { namespaces, hosts: hosts.length })}
      initial={{ force: false }}
      fields={namespaces === 0 ? null : <CheckField name="force" label={t("subsystem.delete.force")} />}
      typed={name}
      danger
      seen={seen}
      plan={plan}
      done={() => (goTo(["hosts"]), t("action.done"))}
      onClose={onClose}
    />
  );
}

interface NewNamespace {
  volume: string;
  snapshot: string;
  nsid: string;
  block: string;
}

function VolumeField() {
  const { t } = useSpeech();
  const volumes = useList("/api/v1/volumes");
  return (
    <NamesField name="volume" label={t("namespace.volume")} names={volumes.items.map(({ name }) => name)} isNeeded />
  );
}

export function AddNamespace({ subsystem, onClose }: Omit<Props, "etag">) {
  const { t } = useSpeech();
  const { name } = subsystem;
  const plan = ({ volume, snapshot, nsid, block }: NewNamespace) => {
    const what = snapshot === "" ? (volume ?? "") : `${volume ?? ""}@${snapshot}`;
    const number = nsid === "" ? null : Number(nsid);
    return {
      call: call("post", "/api/v1/subsystems/{name}/namespaces", {
        params: { path: { name } },
        body: { volume: what, nsid: number, block_bytes: Number(block) },
      }),
      command: amitaCommand(
        ...["namespace", "add", name, what],
        ...(number === null ? [] : ["--nsid", String(number)]),
        ...(block === "4096" ? [] : ["--block-size", block]),
      ),
    };
  };
  const isNumber = (text: string) => text === "" || (/^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 1024);
  return (
    <ActionDialog
      title={t("namespace.add.title", { name })}
      verb={t("namespace.add")}
      about={t("namespace.add.about", { hosts: subsystem.any_host ? t("subsystem.any_host") : subsystem.hosts.length })}
      initial={{ volume: "", snapshot: "", nsid: "", block: "4096" }}
      fields={
        <>
          <VolumeField />
          <TextField name="snapshot" label={t("snapshot.name")} about={t("namespace.snapshot.about")} />
          <TextField
            name="nsid"
            label={t("namespace.nsid")}
            about={t("namespace.nsid.about")}
            fits={isNumber}
            why={t("namespace.nsid.wrong")}
          />
          <BlockField />
        </>
      }
      plan={plan}
      onClose={onClose}
    />
  );
}

export function BlockField() {
  const { t } = useSpeech();
  return (
    <OptionField
      name="block"
      label={t("namespace.block")}
      about={t("namespace.block.about")}
      options={[
        ["4096", "4096"],
        ["512", "512"],
      ]}
    />
  );
}

export function AllowHost({ subsystem, onClose }: Omit<Props, "etag">) {
  const { t } = useSpeech();
  const hosts = useList("/api/v1/hosts");
  const { name } = subsystem;
  const names = hosts.items.map(({ nqn }) => nqn).filter((nqn) => !subsystem.hosts.includes(nqn));
  return (
    <ActionDialog
      title={t("host.allow.title", { name })}
      verb={t("host.allow")}
      about={t("host.allow.about", { namespaces: subsystem.namespaces })}
      initial={{ nqn: "" }}
      fields={<NamesField name="nqn" label={t("host.nqn")} about={t("host.allow.known")} names={names} isNeeded />}
      plan={({ nqn }) => ({
        call: call("put", "/api/v1/subsystems/{name}/hosts/{nqn}", { params: { path: { name, nqn: nqn ?? "" } } }),
        command: amitaCommand("host", "allow", name, nqn ?? ""),
      })}
      onClose={onClose}
    />
  );
}
