import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import type { Policy } from "../../lib/policies";
import { placeHref } from "../../lib/router";
import { keepText, NextRun, PolicyState, targetText, useVolumeNames } from "./parts";
import { CreatePolicy } from "./policies";

function columns(names: ReadonlyMap<number, string>, t: Translate): TableColumnsType<Policy> {
  return [
    {
      title: t("policy.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["schedules", name])}>
          <Name text={name} />
        </a>
      ),
    },
    { title: t("node.state"), width: 200, render: (_, policy) => <PolicyState policy={policy} /> },
    { title: t("policy.target"), width: 260, render: (_, policy) => <Name text={targetText(policy, names, t)} /> },
    { title: t("policy.schedule"), width: 150, render: (_, { schedule }) => <Name text={schedule} /> },
    {
      title: t("policy.next"),
      width: 300,
      sorter: (a, b) => (a.next_at ?? Infinity) - (b.next_at ?? Infinity),
      render: (_, policy) => <NextRun policy={policy} />,
    },
    { title: t("policy.keep"), width: 240, render: (_, policy) => <Name text={keepText(policy, t)} /> },
  ];
}

export function PolicyList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/snapshot-policies");
  const names = useVolumeNames();
  const found = useMemo(
    () => list.items.filter((policy) => matches(search, policy.name, policy.schedule, targetText(policy, names, t))),
    [list.items, search, names, t],
  );
  const shown = useMemo(() => columns(names, t), [names, t]);
  return (
    <ListScreen
      title={t("policy.all")}
      search={t("policy.search")}
      about={t("policy.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      actions={
        <Act
          may="snapshot-policy.create"
          type="primary"
          label={t("policy.create")}
          dialog={(close) => <CreatePolicy onClose={close} />}
        />
      }
    />
  );
}
