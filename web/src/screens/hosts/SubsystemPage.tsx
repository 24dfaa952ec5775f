import { Empty, Spin } from "antd";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList, useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { DenyHost, RemoveNamespace } from "./removals";
import { Doors, gateways } from "./SubsystemList";
import type { Subsystem } from "./SubsystemList";
import { AddNamespace, AllowHost, DeleteSubsystem, SetSubsystem } from "./subsystems";

type Namespace = components["schemas"]["Namespace"];

/** The volume, or VOLUME@SNAPSHOT; undefined: it was deleted. */
function namespaceObject({ volume, snapshot }: Namespace): string | undefined {
  if (volume == null) return undefined;
  return snapshot == null ? volume : `${volume}@${snapshot}`;
}

function VolumeLink({ namespace }: { namespace: Namespace }) {
  const { t } = useSpeech();
  const object = namespaceObject(namespace);
  if (object === undefined) return <Mark tone="odd">{t("namespace.volume.deleted")}</Mark>;
  return (
    <a href={placeHref(["volumes", namespace.volume!], { tab: "attach" })}>
      <Name text={object} />
    </a>
  );
}

function columns(t: Translate): TableColumnsType<Namespace> {
  return [
    { title: t("namespace.nsid"), width: 90, align: "right", render: (_, { nsid }) => nsid },
    { title: t("namespace.volume"), width: 260, render: (_, namespace) => <VolumeLink namespace={namespace} /> },
    {
      title: t("volume.size"),
      width: 110,
      align: "right",
      render: (_, { size_bytes }) => (size_bytes == null ? "" : formatBytes(size_bytes)),
    },
    { title: t("namespace.block"), width: 110, align: "right", render: (_, { block_bytes }) => block_bytes },
    {
      title: t("node.state"),
      width: 120,
      render: (_, { read_only }) => (read_only ? <Mark>{t("export.read_only")}</Mark> : null),
    },
    { title: "UUID", width: 320, render: (_, { uuid }) => <Name text={uuid} /> },
    {
      title: t("list.actions"),
      width: 120,
      render: (_, namespace) => (
        <Act
          size="small"
          danger
          may="namespace.remove"
          label={t("namespace.remove")}
          dialog={(close) => <RemoveNamespace {...namespace} object={namespaceObject(namespace)} onClose={close} />}
        />
      ),
    },
  ];
}

function Namespaces({ subsystem }: { subsystem: Subsystem }) {
  const { t } = useSpeech();
  const list = useList("/api/v1/subsystems/{name}/namespaces", { name: subsystem.name });
  const shown = useMemo(() => columns(t), [t]);
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("subsystem.namespaces")}</h2>
        <span className="space" />
        <Act
          may="namespace.add"
          label={t("namespace.add")}
          dialog={(close) => <AddNamespace subsystem={subsystem} onClose={close} />}
        />
      </div>
      {list.items.length === 0 && !list.isLoading && list.error === null ? (
        <Empty description={t("subsystem.namespaces.none")} />
      ) : (
        <BigTable
          label={t("subsystem.namespaces")}
          rows={list.items}
          columns={shown}
          rowKey="nsid"
          isLoading={list.isLoading}
          error={list.error}
        />
      )}
    </section>
  );
}

function AllowedHosts({ subsystem }: { subsystem: Subsystem }) {
  const { t } = useSpeech();
  const hosts = useList("/api/v1/hosts");
  const known = new Map(hosts.items.map((host) => [host.nqn, host]));
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("subsystem.doors")}</h2>
        <span className="space" />
        <Act
          may="host.allow"
          label={t("host.allow")}
          dialog={(close) => <AllowHost subsystem={subsystem} onClose={close} />}
        />
      </div>
      {subsystem.any_host ? <p>{t("subsystem.any_host.about")}</p> : null}
      {subsystem.hosts.length === 0 && !subsystem.any_host ? <p>{t("subsystem.hosts.none")}</p> : null}
      <ul className="facts">
        {subsystem.hosts.map((nqn) => (
          <li key={nqn} className="tree-row">
            <Name text={nqn} whole />
            <HostProofs host={known.get(nqn)} />
            <Act
              size="small"
              danger
              may="host.deny"
              label={t("host.deny")}
              dialog={(close) => <DenyHost subsystem={subsystem} nqn={nqn} onClose={close} />}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What a host has to prove. */
export function HostProofs({ host }: { host: components["schemas"]["Host"] | undefined }) {
  const { t } = useSpeech();
  if (host === undefined) return null;
  const { dhchap, dhchap_controller, tls } = host;
  return (
    <span className="labels">
      {dhchap ? <Mark tone="good">DH-HMAC-CHAP</Mark> : null}
      {dhchap_controller ? <Mark tone="good">{t("host.proof.both")}</Mark> : null}
      {tls ? <Mark tone="good">TLS</Mark> : null}
      {dhchap || tls ? null : <Mark tone="odd">{t("host.proof.none")}</Mark>}
    </span>
  );
}

function Actions({ subsystem, etag }: { subsystem: Subsystem; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { subsystem, etag };
  return (
    <>
      <Act
        may="subsystem.set"
        label={t("action.change")}
        dialog={(close) => <SetSubsystem {...given} onClose={close} />}
      />
      <Act
        may="subsystem.delete"
        danger
        label={t("subsystem.delete")}
        dialog={(close) => <DeleteSubsystem {...given} onClose={close} />}
      />
    </>
  );
}

function Facts({ subsystem }: { subsystem: Subsystem }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("subsystem.nqn"), <Name text={subsystem.nqn} whole />],
          [t("subsystem.serial"), <Name text={subsystem.serial} />],
          [t("subsystem.gateways"), <Name text={gateways(subsystem, t)} whole />],
          [t("subsystem.doors"), <Doors subsystem={subsystem} />],
        ]}
      />
    </section>
  );
}

export function SubsystemPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/subsystems/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["hosts"])}>{t("subsystem.all")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions subsystem={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <>
          <Facts subsystem={data.data} />
          <AllowedHosts subsystem={data.data} />
          <Namespaces subsystem={data.data} />
        </>
      )}
    </>
  );
}
