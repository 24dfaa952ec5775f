// Hands a volume to a host: makes what is missing, as `amita volume attach` does.
import { Form } from "antd";
import { call } from "../../api/call";
import type { Call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { ownSubsystem } from "../../lib/subsystems";
import { isNqn } from "../hosts/HostList";
import { BlockField } from "../hosts/subsystems";
import type { Subsystem } from "../hosts/SubsystemList";
import type { Volume } from "./VolumeList";

/** What the API takes for a name of a subsystem. */
const SUBSYSTEM = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

interface Values {
  host: string;
  subsystem: string;
  block: string;
}

interface Props {
  readonly volume: Volume;
  /** The name of the subsystem that it is a namespace of already. */
  readonly subsystem: string | undefined;
  readonly onClose: () => void;
}

function HostField({ known }: { known: readonly string[] }) {
  const { t } = useSpeech();
  return (
    <TextField
      name="host"
      label={t("attach.host")}
      about={t("host.nqn.about")}
      fits={(text) => isNqn(text.trim())}
      why={t("host.nqn.wrong")}
      among={known}
      autoFocus
    />
  );
}

/** The subsystem, and what follows where it is there already. */
function SubsystemField({ subsystems }: { subsystems: readonly Subsystem[] }) {
  const { t } = useSpeech();
  const name = (Form.useWatch("subsystem") as string | undefined) ?? "";
  const there = subsystems.find((found) => found.name === name.trim());
  return (
    <>
      <TextField
        name="subsystem"
        label={t("attach.subsystem")}
        about={t("attach.subsystem.about")}
        fits={(text) => SUBSYSTEM.test(text.trim())}
        why={t("attach.subsystem.wrong")}
        among={subsystems.map(({ name }) => name)}
      />
      {there === undefined ? null : (
        <p>
          {t("attach.subsystem.there", {
            namespaces: there.namespaces,
            hosts: there.any_host ? t("subsystem.any_host") : there.hosts.length,
          })}
        </p>
      )}
    </>
  );
}

export function AttachVolume({ volume, subsystem: present, onClose }: Props) {
  const { t } = useSpeech();
  const hosts = useList("/api/v1/hosts");
  const subsystems = useList("/api/v1/subsystems");
  const known = hosts.items.map(({ nqn }) => nqn);
  const names = subsystems.items.map(({ name }) => name);
  const plan = ({ host: chosen, subsystem: given, block }: Values) => {
    const host = chosen.trim();
    const subsystem = present ?? given.trim();
    const before: Call[] = [];
    if (!names.includes(subsystem)) before.push(call("post", "/api/v1/subsystems", { body: { name: subsystem } }));
    if (present === undefined) {
      before.push(
        call("post", "/api/v1/subsystems/{name}/namespaces", {
          params: { path: { name: subsystem } },
          body: { volume: volume.name, block_bytes: Number(block) },
        }),
      );
    }
    if (!known.includes(host)) before.push(call("post", "/api/v1/hosts", { body: { nqn: host } }));
    return {
      before,
      call: call("put", "/api/v1/subsystems/{name}/hosts/{nqn}", { params: { path: { name: subsystem, nqn: host } } }),
      command: amitaCommand(
        ...["volume", "attach", volume.name, "--host", host],
        ...(present !== undefined || subsystem === ownSubsystem(volume.name) ? [] : ["--subsystem", subsystem]),
        ...(present !== undefined || block === "4096" ? [] : ["--block-size", block]),
      ),
    };
  };
  return (
    <ActionDialog
      title={t("attach.title", { name: volume.name })}
      verb={t("attach.attach")}
      about={present === undefined ? t("attach.dialog.about") : t("attach.dialog.another", { name: present })}
      initial={{ host: "", subsystem: ownSubsystem(volume.name), block: "4096" } as Values}
      fields={
        <>
          <HostField known={known} />
          {present === undefined ? <SubsystemField subsystems={subsystems.items} /> : null}
          {present === undefined ? <BlockField /> : null}
        </>
      }
      plan={plan}
      onClose={onClose}
    />
  );
}
