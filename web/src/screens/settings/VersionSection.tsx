import { Spin } from "antd";
import { call } from "../../api/call";
import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField } from "../../components/inputs";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { SettingTable } from "./parts";

type Cluster = components["schemas"]["Cluster"];

function Finalize({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const { t } = useSpeech();
  const plan = ({ force }: { force: boolean }) => ({
    call: call("post", "/api/v1/cluster/finalize", { params: { query: force ? { force } : {} } }),
    command: amitaCommand("cluster", "finalize", force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={t("version.raise")}
      verb={t("version.raise")}
      about={t("version.raise.about", { from: cluster.version, to: cluster.known_version })}
      initial={{ force: false }}
      fields={
        cluster.nodes_away.length === 0 ? null : (
          <CheckField name="force" label={t("version.raise.force", { nodes: cluster.nodes_away.join(", ") })} />
        )
      }
      typed={cluster.id}
      danger
      plan={plan}
      onClose={onClose}
    />
  );
}

/** Nodes by the version that their programs know: `2: n1, n2`. */
function byVersion(cluster: Cluster): string {
  const versions = new Map<number, string[]>();
  for (const [node, version] of Object.entries(cluster.node_versions)) {
    versions.set(version, [...(versions.get(version) ?? []), node]);
  }
  return [...versions]
    .sort(([a], [b]) => b - a)
    .map(([version, nodes]) => `${version}: ${nodes.length > 8 ? nodes.length : nodes.join(", ")}`)
    .join("; ");
}

export function VersionSection() {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/cluster");
  const cluster = data?.data;
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("version.title")}</h2>
        <span className="space" />
        {cluster !== undefined && cluster.known_version > cluster.version ? (
          <Act
            may="cluster.finalize"
            label={t("version.raise")}
            dialog={(close) => <Finalize cluster={cluster} onClose={close} />}
          />
        ) : null}
      </div>
      {error === null ? null : <Problem error={error} />}
      {cluster === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {cluster === undefined ? null : (
        <SettingTable
          label={t("version.title")}
          settings={[
            { name: t("version.version"), value: cluster.version, help: t("version.version.help") },
            { name: t("version.known"), value: cluster.known_version, help: t("version.known.help") },
            {
              name: t("version.nodes"),
              value: <Name text={byVersion(cluster)} whole />,
              help: t("version.nodes.help"),
            },
            {
              name: t("version.away"),
              value: cluster.nodes_away.length === 0 ? t("none") : <Name text={cluster.nodes_away.join(", ")} whole />,
              help: t("version.away.help"),
            },
          ]}
        />
      )}
    </section>
  );
}
