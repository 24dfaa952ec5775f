// What a host has to do: commands to be copied.
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Copyable } from "../../components/Copyable";
import { useSpeech } from "../../i18n";
import { nbdGuides } from "../../lib/attach";
import { visible } from "../../lib/visible";

type Schemas = components["schemas"];

export function NvmeCommands({ attachment }: { attachment: Schemas["Attachment"] }) {
  const { t } = useSpeech();
  const { gateways, commands } = attachment;
  if (commands == null) return <p>{t("attach.no_gateway")}</p>;
  const away = gateways.filter(({ alive }) => !alive).map(({ node }) => node);
  return (
    <div className="commands">
      <p>{t("attach.about", { disk: commands.disk })}</p>
      <Copyable label={t("attach.prepare")} text={commands.prepare.join("\n")} />
      <Copyable label={t("attach.connect")} text={commands.connect.join("\n")} />
      {commands.connect_all == null ? null : <Copyable label={t("attach.connect_all")} text={commands.connect_all} />}
      {commands.prepare.some((one) => one.includes(commands.permanent_file)) ? (
        <p>{t("attach.permanent.config", { file: commands.permanent_file })}</p>
      ) : (
        <Copyable
          label={t("attach.permanent", { file: commands.permanent_file })}
          text={commands.permanent.join("\n")}
        />
      )}
      {gateways.length === 1 ? <p>{t("attach.one_path", { node: gateways[0]!.node })}</p> : null}
      {away.length === 0 ? null : <p>{t("attach.away", { nodes: visible(away.join(", ")) })}</p>}
    </div>
  );
}

/** So many nodes are named, of which each will do. */
const FEW = 3;

export function NbdCommands({ found }: { found: Schemas["NbdExport"] }) {
  const { t } = useSpeech();
  const nodes = useList("/api/v1/nodes");
  const guides = nbdGuides(found.volume, nodes.items);
  if (nodes.isLoading) return null;
  if (guides.length === 0) return <p>{t("attach.nbd.no_node")}</p>;
  return (
    <div className="commands">
      <p>{t("attach.nbd.about")}</p>
      {found.any_client ? <p>{t("attach.nbd.any_client")}</p> : <p>{t("attach.nbd.tls")}</p>}
      {guides.slice(0, FEW).map(({ node, look, connect }) => (
        <Copyable key={node} label={t("attach.nbd.by", { node })} text={`${look}\n${connect}`} />
      ))}
    </div>
  );
}
