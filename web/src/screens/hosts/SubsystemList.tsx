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
import { CreateSubsystem } from "./subsystems";

export type Subsystem = components["schemas"]["Subsystem"];

/** Who may connect, and by what. */
export function Doors({ subsystem }: { subsystem: Subsystem }) {
  const { t } = useSpeech();
  const { any_host, hosts, tls_required } = subsystem;
  return (
    <>
      {any_host ? (
        <Mark tone="odd">{t("subsystem.any_host")}</Mark>
      ) : (
        <Mark>{t("subsystem.hosts.count", { count: hosts.length })}</Mark>
      )}
      {tls_required ? <Mark tone="good">{t("subsystem.tls")}</Mark> : null}
    </>
  );
}

export function gateways({ gateways }: Subsystem, t: Translate): string {
  return gateways.length === 0 ? t("subsystem.gateways.all") : gateways.join(", ");
}

function columns(t: Translate): TableColumnsType<Subsystem> {
  return [
    {
      title: t("subsystem.name"),
      width: 220,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["hosts", name])}>
          <Name text={name} />
        </a>
      ),
    },
    {
      title: t("subsystem.namespaces"),
      width: 130,
      align: "right",
      sorter: (a, b) => a.namespaces - b.namespaces,
      render: (_, { namespaces }) => namespaces,
    },
    { title: t("subsystem.doors"), width: 220, render: (_, subsystem) => <Doors subsystem={subsystem} /> },
    { title: t("subsystem.gateways"), width: 220, render: (_, subsystem) => <Name text={gateways(subsystem, t)} /> },
    { title: t("subsystem.nqn"), width: 420, render: (_, { nqn }) => <Name text={nqn} /> },
  ];
}

export function SubsystemList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/subsystems");
  const found = useMemo(
    () => list.items.filter(({ name, nqn, hosts, gateways }) => matches(search, name, nqn, ...hosts, ...gateways)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("subsystem.all")}
      search={t("subsystem.search")}
      about={t("subsystem.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      actions={
        <Act
          may="subsystem.create"
          type="primary"
          label={t("subsystem.create")}
          dialog={(close) => <CreateSubsystem onClose={close} />}
        />
      }
    />
  );
}
