// How hosts come to a volume: by NVMe/TCP as a namespace, by iSCSI as a LUN, by NBD as an export; with the commands of the host.
import { Spin } from "antd";
import { useState } from "react";
import { useThing, useThingOrNone } from "../../api/queries";
import { asProblem } from "../../api/problem";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Choice } from "../../components/Choice";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { placeHref } from "../../lib/router";
import { visible } from "../../lib/visible";
import { ExportDoors } from "../hosts/ExportList";
import { ExportVolume, Unexport } from "../hosts/exports";
import { RemoveNamespace } from "../hosts/removals";
import { AttachVolume } from "./AttachVolume";
import { NbdCommands, NvmeCommands } from "./HostCommands";
import { Iscsi } from "./Iscsi";
import type { Volume } from "./VolumeList";

type Attachment = components["schemas"]["Attachment"];

/** The commands of one of the hosts that may connect: they come with the attachment, of another host than the first when it is asked for. */
function Commands({ volume, attachment }: { volume: string; attachment: Attachment }) {
  const { t } = useSpeech();
  const [chosen, choose] = useState("");
  const { hosts: allowed, any_host } = attachment;
  const nqn = allowed.includes(chosen) ? chosen : allowed[0];
  const isOther = nqn !== allowed[0];
  const { data, error } = useThing(
    "/api/v1/volumes/{name}/attachment",
    { name: volume },
    { query: { host: nqn }, enabled: isOther },
  );
  const found = isOther ? data?.data : attachment;
  if (nqn === undefined) return <p>{any_host ? t("attach.any_host") : t("attach.no_host")}</p>;
  return (
    <>
      <Choice
        label={t("attach.host")}
        value={nqn}
        options={allowed.map((one) => [one, visible(one)] as const)}
        onChange={choose}
      />
      {isOther && error !== null ? <Problem error={error} /> : null}
      {found === undefined ? null : <NvmeCommands attachment={found} />}
    </>
  );
}

function Nvme({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThingOrNone("/api/v1/volumes/{name}/attachment", { name: volume.name });
  const attachment = data?.data ?? undefined;
  const isKnown = data !== undefined;
  return (
    <section className="card">
      <div className="screen-head">
        <h2>NVMe/TCP</h2>
        <span className="space" />
        {isKnown ? (
          <Act
            may="namespace.add"
            type="primary"
            label={attachment === undefined ? t("attach.attach") : t("attach.another")}
            dialog={(close) => <AttachVolume volume={volume} subsystem={attachment?.subsystem} onClose={close} />}
          />
        ) : null}
        {attachment === undefined ? null : (
          <Act
            danger
            may="namespace.remove"
            label={t("attach.detach")}
            dialog={(close) => <RemoveNamespace {...attachment} object={volume.name} onClose={close} />}
          />
        )}
      </div>
      {error === null ? null : <Problem error={error} />}
      {isKnown || error !== null ? null : <Spin aria-label={t("frame.loading")} />}
      {isKnown && attachment === undefined ? <p>{t("attach.none")}</p> : null}
      {attachment === undefined ? null : (
        <>
          <Pairs
            pairs={[
              [
                t("attach.subsystem"),
                <a href={placeHref(["hosts", attachment.subsystem])}>
                  <Name text={attachment.subsystem} />
                </a>,
              ],
              [t("namespace.nsid"), attachment.nsid],
              ["UUID", attachment.uuid],
              [t("namespace.block"), attachment.block_bytes],
            ]}
          />
          <Commands volume={volume.name} attachment={attachment} />
        </>
      )}
    </section>
  );
}

function Nbd({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { name, exported } = volume;
  const { data, error } = useThing("/api/v1/nbd-exports/{volume}", { volume: name }, { enabled: exported });
  // What was read while it was exported is not what it is when it is not any more.
  const present = exported ? data?.data : undefined;
  const isWrong = exported && error !== null && asProblem(error).status !== 404;
  return (
    <section className="card">
      <div className="screen-head">
        <h2>NBD</h2>
        <span className="space" />
        <Act
          may="volume.export"
          label={present === undefined ? t("export.make") : t("action.change")}
          dialog={(close) => (
            <ExportVolume volume={name} {...(present === undefined ? {} : { present })} onClose={close} />
          )}
        />
        {present === undefined ? null : (
          <Act
            danger
            may="volume.unexport"
            label={t("export.end")}
            dialog={(close) => <Unexport volume={name} onClose={close} />}
          />
        )}
      </div>
      {isWrong ? <Problem error={error} /> : null}
      {present === undefined ? (
        <p>{t("export.none")}</p>
      ) : (
        <>
          <ExportDoors found={present} />
          <NbdCommands found={present} />
        </>
      )}
    </section>
  );
}

export function AttachTab({ volume }: { volume: Volume }) {
  return (
    <>
      <Nvme volume={volume} />
      <Iscsi volume={volume} />
      <Nbd volume={volume} />
    </>
  );
}
