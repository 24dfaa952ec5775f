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
import { AddInitiator, RemoveInitiator } from "./initiators";
import { InitiatorSecrets } from "./secrets";
import { TargetLink } from "./TargetList";

export type Initiator = components["schemas"]["Initiator"];

/** What an initiator has to prove. */
export function InitiatorProofs({ initiator }: { initiator: Initiator | undefined }) {
  const { t } = useSpeech();
  if (initiator === undefined) return null;
  const { name, chap, chap_target, chap_user } = initiator;
  if (!chap) return <Mark tone="odd">{t("host.proof.none")}</Mark>;
  return (
    <span className="labels">
      <Mark tone="good">CHAP</Mark>
      {chap_target ? <Mark tone="good">{t("host.proof.both")}</Mark> : null}
      {chap_user === name ? null : (
        <Mark>
          <Name text={t("initiator.as", { user: chap_user })} />
        </Mark>
      )}
    </span>
  );
}

function Targets({ initiator }: { initiator: Initiator }) {
  const { t } = useSpeech();
  const { targets } = initiator;
  if (targets.length === 0) return t("none");
  return (
    <span className="labels">
      {targets.slice(0, 4).map((name) => (
        <TargetLink key={name} name={name} />
      ))}
      {targets.length > 4 ? t("list.more", { count: targets.length - 4 }) : null}
    </span>
  );
}

function columns(t: Translate): TableColumnsType<Initiator> {
  return [
    {
      title: t("initiator.name"),
      width: 420,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    { title: t("host.proves"), width: 280, render: (_, initiator) => <InitiatorProofs initiator={initiator} /> },
    {
      title: t("initiator.targets"),
      width: 260,
      sorter: (a, b) => a.targets.length - b.targets.length,
      render: (_, initiator) => <Targets initiator={initiator} />,
    },
    {
      title: t("list.actions"),
      width: 190,
      render: (_, initiator) => (
        <span className="row-actions">
          <Act
            size="small"
            may="initiator.key"
            label={t("initiator.secrets")}
            dialog={(close) => <InitiatorSecrets initiator={initiator} onClose={close} />}
          />
          <Act
            size="small"
            danger
            may="initiator.remove"
            label={t("host.remove")}
            dialog={(close) => <RemoveInitiator initiator={initiator} onClose={close} />}
          />
        </span>
      ),
    },
  ];
}

export function InitiatorList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/initiators");
  const found = useMemo(
    () => list.items.filter(({ name, chap_user, targets }) => matches(search, name, chap_user, ...targets)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("initiator.all")}
      search={t("initiator.search")}
      about={t("initiator.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("initiator.first")}
      actions={
        <Act
          may="initiator.add"
          type="primary"
          label={t("initiator.add")}
          dialog={(close) => <AddInitiator onClose={close} />}
        />
      }
    />
  );
}
