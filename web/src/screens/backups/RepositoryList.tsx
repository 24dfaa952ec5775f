import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import type { BackupPolicy, Repository } from "../../lib/backups";
import { formatBytes } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { AddRepository, RemoveRepository, SetRepository } from "./repositories";

/** The names of the policies that use each repository. */
function usersOf(policies: readonly BackupPolicy[]): ReadonlyMap<string, readonly string[]> {
  const users = new Map<string, string[]>();
  for (const { name, repository } of policies) {
    const known = users.get(repository);
    if (known === undefined) users.set(repository, [name]);
    else known.push(name);
  }
  return users;
}

function columns(users: ReadonlyMap<string, readonly string[]>, t: Translate): TableColumnsType<Repository> {
  return [
    {
      title: t("repository.name"),
      width: 180,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    { title: t("repository.address"), width: 300, render: (_, { address }) => <Name text={address} /> },
    { title: t("repository.key_file"), width: 220, render: (_, { key_file }) => <Name text={key_file} /> },
    {
      title: t("repository.nodes"),
      width: 200,
      render: (_, { nodes }) => (nodes.length === 0 ? t("repository.nodes.all") : <Name text={nodes.join(", ")} />),
    },
    {
      title: t("mirror.rate"),
      width: 110,
      align: "right",
      render: (_, { limit_bytes_per_second: rate }) =>
        rate == null ? t("mirror.rate.none") : t("limit.rate", { rate: formatBytes(rate) }),
    },
    {
      title: t("repository.locked"),
      width: 110,
      align: "right",
      render: (_, { lock_days }) => (lock_days == null ? t("no") : t("repository.locked.days", { count: lock_days })),
    },
    {
      title: t("backup.policies"),
      width: 220,
      render: (_, { name }) => {
        const known = users.get(name) ?? [];
        if (known.length === 0) return t("none");
        return (
          <a href={placeHref(["backups"], { q: name })}>
            <Name text={known.join(", ")} />
          </a>
        );
      },
    },
    {
      title: t("list.actions"),
      width: 180,
      render: (_, repository) => (
        <span className="row-actions">
          <Act
            size="small"
            may="backup-repository.set"
            label={t("action.change")}
            dialog={(close) => <SetRepository repository={repository} onClose={close} />}
          />
          <Act
            size="small"
            danger
            may="backup-repository.remove"
            label={t("repository.remove")}
            dialog={(close) => <RemoveRepository repository={repository} onClose={close} />}
          />
        </span>
      ),
    },
  ];
}

export function RepositoryList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/backup-repositories");
  const policies = useList("/api/v1/backup-policies");
  const found = useMemo(
    () => list.items.filter(({ name, address }) => matches(search, name, address)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(usersOf(policies.items), t), [policies.items, t]);
  return (
    <ListScreen
      title={t("repository.all")}
      search={t("repository.search")}
      about={t("repository.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("repository.first")}
      actions={
        <Act
          may="backup-repository.add"
          type="primary"
          label={t("repository.add")}
          dialog={(close) => <AddRepository onClose={close} />}
        />
      }
    />
  );
}
