import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import type { BackupPolicy } from "../../lib/backups";
import { formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { keepText, NextRun, targetText, useVolumeNames } from "../schedules/parts";
import { BackupState } from "./parts";
import { CreateBackupPolicy } from "./policies";

function columns(names: ReadonlyMap<number, string>, t: Translate, locale: string): TableColumnsType<BackupPolicy> {
  const succeeded = ({ history }: BackupPolicy) => history?.succeeded_at ?? undefined;
  return [
    {
      title: t("policy.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["backups", name])}>
          <Name text={name} />
        </a>
      ),
    },
    { title: t("node.state"), width: 240, render: (_, policy) => <BackupState policy={policy} /> },
    {
      title: t("backup.succeeded"),
      width: 190,
      sorter: (a, b) => (succeeded(a) ?? 0) - (succeeded(b) ?? 0),
      render: (_, policy) => {
        const at = succeeded(policy);
        return at === undefined ? t("backup.never") : formatTime(at * 1000, locale);
      },
    },
    { title: t("policy.target"), width: 240, render: (_, policy) => <Name text={targetText(policy, names, t)} /> },
    {
      title: t("backup.repository"),
      width: 160,
      sorter: (a, b) => a.repository.localeCompare(b.repository),
      render: (_, { repository }) => (
        <a href={placeHref(["backups"], { tab: "repositories", q: repository })}>
          <Name text={repository} />
        </a>
      ),
    },
    { title: t("policy.schedule"), width: 140, render: (_, { schedule }) => <Name text={schedule} /> },
    {
      title: t("policy.next"),
      width: 300,
      sorter: (a, b) => (a.next_at ?? Infinity) - (b.next_at ?? Infinity),
      render: (_, policy) => <NextRun policy={policy} />,
    },
    { title: t("policy.keep"), width: 220, render: (_, policy) => <Name text={keepText(policy, t)} /> },
  ];
}

export function PolicyList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/backup-policies");
  const names = useVolumeNames();
  const found = useMemo(
    () =>
      list.items.filter((policy) =>
        matches(search, policy.name, policy.repository, policy.schedule, targetText(policy, names, t)),
      ),
    [list.items, search, names, t],
  );
  const shown = useMemo(() => columns(names, t, locale), [names, t, locale]);
  return (
    <ListScreen
      title={t("backup.policies")}
      search={t("policy.search")}
      about={t("backup.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("backup.first")}
      actions={
        <Act
          may="backup-policy.create"
          type="primary"
          label={t("policy.create")}
          dialog={(close) => <CreateBackupPolicy onClose={close} />}
        />
      }
    />
  );
}
