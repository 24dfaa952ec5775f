import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { placeHref } from "../../lib/router";
import { CreateTarget, useIscsiNodes } from "./targets";

export type Target = components["schemas"]["IscsiTarget"];

/** The place of a target's page. */
export function targetPlace(name: string): string[] {
  return ["hosts", "target", name];
}

export function TargetLink({ name }: { name: string }) {
  return (
    <a href={placeHref(targetPlace(name))}>
      <Name text={name} />
    </a>
  );
}

/** Who may log in, and by what. */
export function TargetDoors({ target }: { target: Target }) {
  const { t } = useSpeech();
  const { any_initiator, initiators, chap_required } = target;
  return (
    <>
      {any_initiator ? (
        <Mark tone="odd">{t("target.any_initiator")}</Mark>
      ) : (
        <Mark>{t("target.initiators.count", { count: initiators.length })}</Mark>
      )}
      {chap_required ? <Mark tone="good">{t("target.chap")}</Mark> : null}
    </>
  );
}

export function targetGateways({ gateways }: Target, t: Translate): string {
  return gateways.length === 0 ? t("target.gateways.all") : gateways.join(", ");
}

function columns(t: Translate): TableColumnsType<Target> {
  return [
    {
      title: t("target.name"),
      width: 220,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <TargetLink name={name} />,
    },
    {
      title: t("target.luns"),
      width: 110,
      align: "right",
      sorter: (a, b) => a.luns - b.luns,
      render: (_, { luns }) => luns,
    },
    { title: t("target.doors"), width: 240, render: (_, target) => <TargetDoors target={target} /> },
    { title: t("target.gateways"), width: 220, render: (_, target) => <Name text={targetGateways(target, t)} /> },
    { title: t("target.iqn"), width: 420, render: (_, { iqn }) => <Name text={iqn} /> },
  ];
}

export function TargetList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/targets");
  const gateways = useIscsiNodes();
  const found = useMemo(
    () =>
      list.items.filter(({ name, iqn, initiators, gateways }) =>
        matches(search, name, iqn, ...initiators.map(({ initiator }) => initiator), ...gateways),
      ),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("target.all")}
      search={t("target.search")}
      about={t("target.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={gateways.length === 0 ? t("gateway.first") : t("target.first")}
      actions={
        <Act
          may="target.create"
          type="primary"
          label={t("target.create")}
          dialog={(close) => <CreateTarget onClose={close} />}
        />
      }
    />
  );
}
