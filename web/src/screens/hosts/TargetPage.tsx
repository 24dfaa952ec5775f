import { Empty, Spin } from "antd";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList, useThing } from "../../api/queries";
import type { List } from "../../api/queries";
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
import { isGateway, lunObject } from "../../lib/iscsi";
import { placeHref } from "../../lib/router";
import { InitiatorProofs } from "./InitiatorList";
import { AllowInitiator, DenyInitiator } from "./initiators";
import { AddLun, RemoveLun } from "./luns";
import { TargetDoors, targetGateways } from "./TargetList";
import type { Target } from "./TargetList";
import { DeleteTarget, SetTarget } from "./targets";

type Lun = components["schemas"]["Lun"];

function VolumeLink({ lun }: { lun: Lun }) {
  const { t } = useSpeech();
  const object = lunObject(lun);
  if (object === undefined) return <Mark tone="odd">{t("namespace.volume.deleted")}</Mark>;
  return (
    <a href={placeHref(["volumes", lun.volume!], { tab: "attach" })}>
      <Name text={object} />
    </a>
  );
}

function columns(t: Translate): TableColumnsType<Lun> {
  return [
    { title: "LUN", width: 90, align: "right", render: (_, { lun }) => lun },
    { title: t("namespace.volume"), width: 260, render: (_, lun) => <VolumeLink lun={lun} /> },
    {
      title: t("volume.size"),
      width: 110,
      align: "right",
      render: (_, { size_bytes }) => (size_bytes == null ? "" : formatBytes(size_bytes)),
    },
    { title: t("namespace.block"), width: 110, align: "right", render: (_, { block_bytes }) => block_bytes },
    {
      title: t("node.state"),
      width: 170,
      render: (_, { read_only, shared }) => (
        <>
          {read_only ? <Mark>{t("export.read_only")}</Mark> : null}
          {shared ? <Mark tone="odd">{t("export.shared")}</Mark> : null}
        </>
      ),
    },
    { title: "NAA", width: 320, render: (_, { naa }) => <Name text={`naa.${naa}`} /> },
    {
      title: t("list.actions"),
      width: 120,
      render: (_, lun) => (
        <Act
          size="small"
          danger
          may="lun.remove"
          label={t("lun.remove")}
          dialog={(close) => <RemoveLun {...lun} object={lunObject(lun)} onClose={close} />}
        />
      ),
    },
  ];
}

function Luns({ target, list }: { target: Target; list: List<Lun> }) {
  const { t } = useSpeech();
  const shown = useMemo(() => columns(t), [t]);
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("target.luns")}</h2>
        <span className="space" />
        <Act may="lun.add" label={t("lun.add")} dialog={(close) => <AddLun target={target} onClose={close} />} />
      </div>
      {list.items.length === 0 && !list.isLoading && list.error === null ? (
        <Empty description={t("lun.none")} />
      ) : (
        <BigTable
          label={t("target.luns")}
          rows={list.items}
          columns={shown}
          rowKey="lun"
          isLoading={list.isLoading}
          error={list.error}
        />
      )}
    </section>
  );
}

/** What an initiator sees. */
function maskText(luns: readonly number[] | null | undefined, t: Translate): string {
  if (luns == null) return t("initiator.sees.all");
  return luns.length === 0 ? t("initiator.sees.none") : t("initiator.sees", { luns: luns.join(", ") });
}

function Allowed({ target, luns }: { target: Target; luns: readonly Lun[] }) {
  const { t } = useSpeech();
  const initiators = useList("/api/v1/initiators");
  const known = new Map(initiators.items.map((one) => [one.name, one]));
  const numbers = luns.map(({ lun }) => lun);
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("target.doors")}</h2>
        <span className="space" />
        <Act
          may="initiator.allow"
          label={t("initiator.allow")}
          dialog={(close) => <AllowInitiator target={target} luns={numbers} onClose={close} />}
        />
      </div>
      {target.any_initiator ? <p>{t("target.any_initiator.about")}</p> : null}
      {target.initiators.length === 0 && !target.any_initiator ? <p>{t("target.initiators.none")}</p> : null}
      <ul className="facts">
        {target.initiators.map((access) => (
          <li key={access.initiator} className="tree-row">
            <Name text={access.initiator} whole />
            <Mark>{maskText(access.luns, t)}</Mark>
            <InitiatorProofs initiator={known.get(access.initiator)} />
            <Act
              size="small"
              may="initiator.allow"
              label={t("initiator.mask")}
              dialog={(close) => <AllowInitiator target={target} luns={numbers} access={access} onClose={close} />}
            />
            <Act
              size="small"
              danger
              may="initiator.deny"
              label={t("initiator.deny")}
              dialog={(close) => <DenyInitiator target={target} access={access} onClose={close} />}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Where initiators log in to it. */
function Portals({ target }: { target: Target }) {
  const { t } = useSpeech();
  const nodes = useList("/api/v1/nodes");
  const serving = nodes.items.filter(({ name, iscsi }) => iscsi.length > 0 && isGateway(target, name));
  return (
    <section className="card">
      <h2>{t("target.portals")}</h2>
      {serving.length === 0 && !nodes.isLoading ? <p>{t("gateway.none")}</p> : null}
      {serving.length === 1 ? <p>{t("attach.iscsi.one_node", { node: serving[0]!.name })}</p> : null}
      <ul className="facts">
        {serving.map(({ name, alive, iscsi, iscsi_tag }) => (
          <li key={name} className="tree-row">
            <a href={placeHref(["nodes", name])}>
              <Name text={name} />
            </a>
            <Mark tone={alive ? "good" : "bad"}>{t(alive ? "node.alive" : "node.gone")}</Mark>
            {iscsi_tag == null ? null : <Mark>{t("gateway.tag", { tag: iscsi_tag })}</Mark>}
            <Name text={iscsi.join(", ")} whole />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Actions({ target, etag }: { target: Target; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { target, etag };
  return (
    <>
      <Act may="target.set" label={t("action.change")} dialog={(close) => <SetTarget {...given} onClose={close} />} />
      <Act
        may="target.delete"
        danger
        label={t("target.delete")}
        dialog={(close) => <DeleteTarget {...given} onClose={close} />}
      />
    </>
  );
}

function Facts({ target }: { target: Target }) {
  const { t } = useSpeech();
  const percent = target.space_warning_percent;
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("target.iqn"), <Name text={target.iqn} whole />],
          [t("target.gateways"), <Name text={targetGateways(target, t)} whole />],
          [t("target.doors"), <TargetDoors target={target} />],
          [t("target.move"), t(target.initiators_move ? "target.move.initiators" : "target.move.operators")],
          [t("target.warning"), percent == null ? t("target.warning.usual") : t("target.warning.at", { percent })],
        ]}
      />
    </section>
  );
}

function Content({ target }: { target: Target }) {
  const list = useList("/api/v1/targets/{name}/luns", { name: target.name });
  return (
    <>
      <div className="cards">
        <Facts target={target} />
        <Portals target={target} />
      </div>
      <Allowed target={target} luns={list.items} />
      <Luns target={target} list={list} />
    </>
  );
}

export function TargetPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/targets/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["hosts"], { tab: "targets" })}>{t("target.all")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions target={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : <Content target={data.data} />}
    </>
  );
}
