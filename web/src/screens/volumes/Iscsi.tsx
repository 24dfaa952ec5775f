// How initiators come to a volume by iSCSI: as a LUN of a target; with the commands of Linux, ESXi and Windows.
import { Spin } from "antd";
import { useState } from "react";
import { useThing, useThingOrNone } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Choice } from "../../components/Choice";
import { Copyable } from "../../components/Copyable";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { systemOf } from "../../lib/iscsi";
import type { System } from "../../lib/iscsi";
import { visible } from "../../lib/visible";
import { RemoveLun } from "../hosts/luns";
import { TargetLink } from "../hosts/TargetList";
import { AttachIscsi } from "./AttachIscsi";
import type { Volume } from "./VolumeList";

type Schemas = components["schemas"];
type Attachment = Schemas["IscsiAttachment"];

const ABOUT: Readonly<Record<System, Word>> = {
  linux: "attach.iscsi.linux",
  esxi: "attach.iscsi.esxi",
  windows: "attach.iscsi.windows",
};
const SYSTEMS: readonly (readonly [System, string])[] = [
  ["linux", "Linux"],
  ["esxi", "VMware ESXi"],
  ["windows", "Windows"],
];

function Steps({ system, commands }: { system: System; commands: Schemas["InitiatorCommands"] }) {
  const { t } = useSpeech();
  const { prepare, connect, file, lines, disk } = commands[system];
  return (
    <div className="commands">
      <p>{t(ABOUT[system], { initiator: commands.initiator })}</p>
      {file == null ? null : <Copyable label={t("attach.iscsi.file", { file })} text={lines.join("\n")} />}
      <Copyable label={t("attach.prepare")} text={prepare.join("\n")} />
      <Copyable label={t("attach.iscsi.connect")} text={connect.join("\n")} />
      <Copyable label={t("attach.iscsi.disk")} text={disk} />
    </div>
  );
}

/** Where an initiator logs in to it, the owner's first. */
function Portals({ portals }: { portals: Attachment["portals"] }) {
  const { t } = useSpeech();
  const nodes = new Set(portals.map(({ node }) => node));
  const away = [...new Set(portals.filter(({ alive }) => !alive).map(({ node }) => node))];
  return (
    <>
      <h3>{t("target.portals")}</h3>
      <ul className="facts">
        {portals.map(({ node, address, port, tag, owner, alive }) => (
          <li key={`${node} ${address} ${port}`} className="tree-row">
            <Name text={`${address.includes(":") ? `[${address}]` : address}:${port}`} whole />
            <Name text={node} />
            <Mark>{t("gateway.tag", { tag })}</Mark>
            {owner ? <Mark tone="good">{t("attach.iscsi.owner")}</Mark> : null}
            {alive ? null : <Mark tone="bad">{t("node.gone")}</Mark>}
          </li>
        ))}
      </ul>
      {nodes.size === 1 ? <p>{t("attach.iscsi.one_node", { node: portals[0]!.node })}</p> : null}
      {away.length === 0 ? null : <p>{t("attach.away", { nodes: visible(away.join(", ")) })}</p>}
    </>
  );
}

/** The commands of one of the initiators that see it: of another one than the first they are asked for. */
function Commands({ volume, attachment }: { volume: string; attachment: Attachment }) {
  const { t } = useSpeech();
  const [chosen, choose] = useState("");
  const [kind, setKind] = useState<System>();
  const { initiators, any_initiator, portals } = attachment;
  const allowed = initiators.map(({ initiator }) => initiator);
  const initiator = allowed.includes(chosen) ? chosen : allowed[0];
  const isOther = initiator !== allowed[0];
  const { data, error } = useThing(
    "/api/v1/volumes/{name}/iscsi-attachment",
    { name: volume },
    { query: { initiator }, enabled: isOther },
  );
  const commands = isOther ? data?.data.commands : attachment.commands;
  if (portals.length === 0) return <p>{t("gateway.none")}</p>;
  if (initiator === undefined) {
    return <p>{any_initiator ? t("attach.iscsi.any") : t("attach.iscsi.nobody")}</p>;
  }
  const system = kind ?? systemOf(initiator);
  return (
    <>
      <div className="row-actions">
        <Choice
          label={t("initiator.name")}
          value={initiator}
          options={allowed.map((one) => [one, visible(one)] as const)}
          onChange={(one) => (choose(one), setKind(undefined))}
        />
        <Choice label={t("attach.iscsi.system")} value={system} options={SYSTEMS} onChange={setKind} />
      </div>
      {isOther && error !== null ? <Problem error={error} /> : null}
      {commands == null ? null : <Steps system={system} commands={commands} />}
    </>
  );
}

export function Iscsi({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThingOrNone("/api/v1/volumes/{name}/iscsi-attachment", { name: volume.name });
  const attachment = data?.data ?? undefined;
  const isKnown = data !== undefined;
  return (
    <section className="card">
      <div className="screen-head">
        <h2>iSCSI</h2>
        <span className="space" />
        {isKnown ? (
          <Act
            may="lun.add"
            label={attachment === undefined ? t("attach.iscsi.attach") : t("attach.iscsi.another")}
            dialog={(close) => <AttachIscsi volume={volume} present={attachment} onClose={close} />}
          />
        ) : null}
        {attachment === undefined ? null : (
          <Act
            danger
            may="lun.remove"
            label={t("attach.iscsi.remove")}
            dialog={(close) => <RemoveLun {...attachment} object={volume.name} onClose={close} />}
          />
        )}
      </div>
      {error === null ? null : <Problem error={error} />}
      {isKnown || error !== null ? null : <Spin aria-label={t("frame.loading")} />}
      {isKnown && attachment === undefined ? <p>{t("attach.iscsi.none")}</p> : null}
      {attachment === undefined ? null : (
        <>
          <Pairs
            pairs={[
              [t("attach.target"), <TargetLink name={attachment.target} />],
              ["LUN", attachment.lun],
              ["NAA", <Name text={`naa.${attachment.naa}`} whole />],
              [t("namespace.block"), attachment.block_bytes],
            ]}
          />
          <Commands volume={volume.name} attachment={attachment} />
          {attachment.portals.length === 0 ? null : <Portals portals={attachment.portals} />}
        </>
      )}
    </section>
  );
}
