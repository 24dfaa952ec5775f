// Hands a volume to an initiator: makes what is missing, as `amita volume attach --iscsi` does.
import { Form } from "antd";
import { useEffect, useState } from "react";
import { call } from "../../api/call";
import type { Call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { ActionDialog } from "../../components/ActionDialog";
import { TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { iscsiName, maskWith, nextLun, usualBlock } from "../../lib/iscsi";
import { ownSubsystem } from "../../lib/subsystems";
import { InitiatorField } from "../hosts/initiators";
import { LunBlockField } from "../hosts/luns";
import type { Target } from "../hosts/TargetList";
import type { Volume } from "./VolumeList";

/** What the API takes for a name of a target. */
const TARGET = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

interface Values {
  initiator: string;
  target: string;
  block: string;
}

interface Props {
  readonly volume: Volume;
  /** By what it is a LUN already. */
  readonly present: components["schemas"]["IscsiAttachment"] | undefined;
  readonly onClose: () => void;
}

/** The target, and what follows where it is there already. */
function TargetField({ targets, onName }: { targets: readonly Target[]; onName: (name: string) => void }) {
  const { t } = useSpeech();
  const name = (Form.useWatch("target") as string | undefined) ?? "";
  const there = targets.find((found) => found.name === name.trim());
  useEffect(() => onName(name.trim()), [name, onName]);
  return (
    <>
      <TextField
        name="target"
        label={t("attach.target")}
        about={t("attach.subsystem.about")}
        fits={(text) => TARGET.test(text.trim())}
        why={t("attach.subsystem.wrong")}
        among={targets.map(({ name }) => name)}
      />
      {there === undefined ? null : <p>{t("attach.target.there", { luns: there.luns })}</p>}
    </>
  );
}

export function AttachIscsi({ volume, present, onClose }: Props) {
  const { t } = useSpeech();
  const own = ownSubsystem(volume.name);
  const usual = usualBlock(volume);
  const [name, setName] = useState(present?.target ?? own);
  const initiators = useList("/api/v1/initiators");
  const targets = useList("/api/v1/targets");
  const find = (wanted: string) => targets.items.find((found) => found.name === wanted);
  // The number is said, so that the mask can name it: it is the one that the target would choose.
  const isThere = present === undefined && find(name) !== undefined;
  const luns = useList("/api/v1/targets/{name}/luns", { name }, {}, isThere);
  const isKnown = !targets.isLoading && targets.error === null && !(isThere && (luns.isLoading || luns.error !== null));
  const plan = ({ initiator: given, target: wanted, block }: Values) => {
    const initiator = iscsiName(given);
    const target = present?.target ?? wanted.trim();
    const found = find(target);
    const lun = present?.lun ?? nextLun(isThere && target === name ? luns.items.map((one) => one.lun) : []);
    const before: Call[] = [];
    if (found === undefined) before.push(call("post", "/api/v1/targets", { body: { name: target } }));
    if (present === undefined) {
      before.push(
        call("post", "/api/v1/targets/{name}/luns", {
          params: { path: { name: target } },
          body: { volume: volume.name, lun, block_bytes: Number(block) },
        }),
      );
    }
    return {
      before,
      call: call("put", "/api/v1/targets/{name}/initiators/{initiator}", {
        params: { path: { name: target, initiator } },
        body: { luns: maskWith(found, initiator, lun) },
      }),
      command: amitaCommand(
        ...["volume", "attach", volume.name, "--iscsi", initiator],
        ...(present !== undefined || target === own ? [] : ["--target", target]),
        ...(present !== undefined || block === usual ? [] : ["--block-size", block]),
      ),
    };
  };
  return (
    <ActionDialog
      title={t("attach.iscsi.title", { name: volume.name })}
      verb={t("attach.iscsi.attach")}
      about={present === undefined ? t("attach.iscsi.about") : t("attach.iscsi.about.another", { lun: present.lun })}
      initial={{ initiator: "", target: own, block: usual } as Values}
      fields={
        <>
          <InitiatorField name="initiator" known={initiators.items.map((one) => one.name)} />
          {present === undefined ? <TargetField targets={targets.items} onName={setName} /> : null}
          {present === undefined ? <LunBlockField /> : null}
        </>
      }
      ready={isKnown}
      plan={plan}
      onClose={onClose}
    />
  );
}
