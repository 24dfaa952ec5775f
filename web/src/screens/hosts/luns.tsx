// What can be done with LUNs: volumes, and snapshots of them, under a number in a target.
import { Form } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NamesField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { isLunNumber, usualBlock } from "../../lib/iscsi";
import type { Target } from "./TargetList";

interface NewLun {
  volume: string;
  snapshot: string;
  number: string;
  block: string;
  shared: boolean;
}

/** `usual`: nothing has to be chosen, and it is that then. */
export function LunBlockField({ usual }: { usual?: string }) {
  const { t } = useSpeech();
  const unsaid = usual === undefined ? [] : [["", t("lun.block.usual", { bytes: usual })] as const];
  return (
    <OptionField
      name="block"
      label={t("namespace.block")}
      about={t("lun.block.about")}
      options={[
        ...unsaid,
        ["512", "512"],
        ["4096", "4096"],
      ]}
    />
  );
}

function Fields() {
  const { t } = useSpeech();
  const volumes = useList("/api/v1/volumes");
  const chosen = Form.useWatch("volume") as string | undefined;
  const usual = usualBlock(volumes.items.find(({ name }) => name === chosen));
  return (
    <>
      <NamesField name="volume" label={t("namespace.volume")} names={volumes.items.map(({ name }) => name)} isNeeded />
      <TextField name="snapshot" label={t("snapshot.name")} about={t("namespace.snapshot.about")} />
      <TextField
        name="number"
        label={t("lun.number")}
        about={t("lun.number.about")}
        fits={isLunNumber}
        why={t("lun.number.wrong")}
      />
      <LunBlockField usual={usual} />
      <CheckField name="shared" label={t("lun.shared.set")} about={t("lun.shared.about")} />
    </>
  );
}

export function AddLun({ target, onClose }: { target: Target; onClose: () => void }) {
  const { t } = useSpeech();
  const { name } = target;
  const volumes = useList("/api/v1/volumes");
  const usualOf = (wanted: string) => usualBlock(volumes.items.find((found) => found.name === wanted));
  const plan = ({ volume, snapshot, number, block: chosen, shared }: NewLun) => {
    const usual = usualOf(volume ?? "");
    const block = chosen === "" ? usual : chosen;
    const what = snapshot === "" ? (volume ?? "") : `${volume ?? ""}@${snapshot}`;
    return {
      call: call("post", "/api/v1/targets/{name}/luns", {
        params: { path: { name } },
        body: { volume: what, lun: number === "" ? null : Number(number), block_bytes: Number(block), shared },
      }),
      command: amitaCommand(
        ...["lun", "add", name, what],
        ...(number === "" ? [] : ["--number", number]),
        ...(block === usual ? [] : ["--block-size", block]),
        shared ? "--shared" : undefined,
      ),
    };
  };
  return (
    <ActionDialog
      title={t("lun.add.title", { name })}
      verb={t("lun.add")}
      about={t("lun.add.about")}
      initial={{ volume: "", snapshot: "", number: "", block: "", shared: false } as NewLun}
      fields={<Fields />}
      plan={plan}
      onClose={onClose}
    />
  );
}

interface Removed {
  /** The name of the target. */
  readonly target: string;
  readonly lun: number;
  /** The volume, or VOLUME@SNAPSHOT; undefined: it was deleted. */
  readonly object: string | undefined;
  readonly onClose: () => void;
}

export function RemoveLun({ target, lun, object, onClose }: Removed) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("lun.remove.title", { name: object ?? lun, target })}
      verb={t("lun.remove")}
      about={t("lun.remove.about", { lun })}
      initial={{}}
      typed={object ?? String(lun)}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/targets/{name}/luns/{lun}", { params: { path: { name: target, lun } } }),
        command: amitaCommand("lun", "remove", target, String(lun)),
      })}
      onClose={onClose}
    />
  );
}
