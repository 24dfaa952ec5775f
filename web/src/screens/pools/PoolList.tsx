import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { placeHref } from "../../lib/router";
import { CreatePool } from "./actions";
import { copies, GroupStates, PoolSpace } from "./parts";
import type { Pool } from "./parts";

function columns(t: Translate): TableColumnsType<Pool> {
  return [
    {
      title: t("pool.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["pools", name])}>
          <Name text={name} />
        </a>
      ),
    },
    { title: t("pool.copies"), width: 150, render: (_, pool) => copies(pool, t) },
    { title: t("pool.level"), width: 120, render: (_, { level }) => level },
    { title: t("store.class"), width: 100, render: (_, pool) => <Name text={pool.class ?? ""} /> },
    {
      title: t("pool.raw"),
      width: 220,
      sorter: (a, b) => a.used_bytes - b.used_bytes,
      render: (_, pool) => <PoolSpace pool={pool} />,
    },
    {
      title: t("pool.fullest"),
      width: 120,
      align: "right",
      sorter: (a, b) => (a.fullest_percent ?? -1) - (b.fullest_percent ?? -1),
      render: (_, pool) => (pool.fullest_percent == null ? "" : `${pool.fullest_percent} %`),
    },
    { title: t("pool.groups"), width: 320, render: (_, pool) => <GroupStates counts={pool.group_counts} /> },
  ];
}

export function PoolList() {
  const { t } = useSpeech();
  const search = useSearch();
  const { items, isLoading, error } = useList("/api/v1/pools");
  const found = useMemo(() => items.filter((pool) => matches(search, pool.name, pool.class)), [items, search]);
  const shown = useMemo(() => columns(t), [t]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.pools")}</h1>
        <span className="space" />
        <Search label={t("pool.search")} />
        <Act
          may="pool.create"
          type="primary"
          label={t("pool.create")}
          dialog={(close) => <CreatePool onClose={close} />}
        />
      </div>
      <BigTable
        label={t("screen.pools")}
        rows={found}
        columns={shown}
        rowKey="name"
        isLoading={isLoading}
        error={error}
      />
    </>
  );
}
