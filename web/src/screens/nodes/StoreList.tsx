import { Mark } from "../../components/Mark";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { List } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes, formatCount } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { DrainStore, WeighStore } from "./actions";
import { AdoptStore, ClassifyStore, ForgetStore, ReplaceStore } from "./disks";

export type Store = components["schemas"]["Store"];

export function StoreState({ store }: { store: Store }) {
  const { t } = useSpeech();
  return (
    <>
      {store.serves ? <Mark tone="good">{t("store.serves")}</Mark> : <Mark tone="bad">{t("store.away")}</Mark>}
      {store.draining ? <Mark tone="odd">{t("store.draining")}</Mark> : null}
      {store.syncing > 0 ? <Mark tone="busy">{t("store.syncing", { count: store.syncing })}</Mark> : null}
    </>
  );
}

function Used({ store }: { store: Store }) {
  const { t } = useSpeech();
  if (store.capacity_bytes == null || store.used_bytes == null) return t("unknown");
  return (
    <>
      {t("store.used_of", { used: formatBytes(store.used_bytes), all: formatBytes(store.capacity_bytes) })}
      <Meter label={t("store.used")} part={store.used_bytes} whole={store.capacity_bytes} />
    </>
  );
}

function StoreActions({ store }: { store: Store }) {
  const { t } = useSpeech();
  const drain = store.draining ? t("store.undrain") : t("store.drain");
  return (
    <span className="row-actions">
      <Act
        size="small"
        may="disk.drain"
        label={drain}
        dialog={(close) => <DrainStore store={store} onClose={close} />}
      />
      <Act
        size="small"
        may="disk.weight"
        label={t("store.weigh")}
        dialog={(close) => <WeighStore store={store} onClose={close} />}
      />
      <Act
        size="small"
        may="disk.class"
        label={t("disk.class")}
        dialog={(close) => <ClassifyStore store={store} onClose={close} />}
      />
      <Act
        size="small"
        may="disk.replace"
        label={t("disk.replace")}
        dialog={(close) => <ReplaceStore store={store} onClose={close} />}
      />
      <Act
        size="small"
        danger
        may="disk.forget"
        label={t("disk.forget")}
        dialog={(close) => <ForgetStore store={store} onClose={close} />}
      />
      {store.serves ? null : (
        <Act
          size="small"
          danger
          may="disk.adopt"
          label={t("disk.adopt")}
          dialog={(close) => <AdoptStore store={store} onClose={close} />}
        />
      )}
    </span>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<Store> {
  return [
    { title: t("store.id"), width: 130, render: (_, { id }) => <span title={id}>{id.slice(0, 8)}</span> },
    {
      title: t("store.node"),
      width: 160,
      sorter: (a, b) => a.node.localeCompare(b.node),
      render: (_, { node }) => (
        <a href={placeHref(["nodes", node])}>
          <Name text={node} />
        </a>
      ),
    },
    { title: t("store.path"), width: 190, render: (_, { path }) => <Name text={path} /> },
    {
      title: t("node.state"),
      width: 220,
      sorter: (a, b) => Number(a.serves) - Number(b.serves),
      render: (_, store) => <StoreState store={store} />,
    },
    {
      title: t("store.used"),
      width: 190,
      sorter: (a, b) => (a.used_percent ?? -1) - (b.used_percent ?? -1),
      render: (_, store) => <Used store={store} />,
    },
    { title: t("store.class"), width: 90, render: (_, store) => <Name text={store.class ?? ""} /> },
    {
      title: t("store.weight"),
      width: 110,
      align: "right",
      sorter: (a, b) => a.weight - b.weight,
      render: (_, { weight }) => formatCount(weight, locale),
    },
    { title: t("store.groups"), width: 110, align: "right", render: (_, store) => `${store.in_sync}/${store.groups}` },
    { title: t("list.actions"), width: 500, render: (_, store) => <StoreActions store={store} /> },
  ];
}

export function StoreTable({ list, found }: { list: List<Store>; found: readonly Store[] }) {
  const { t, locale } = useSpeech();
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <BigTable
      label={t("node.stores")}
      rows={found}
      columns={shown}
      rowKey="id"
      isLoading={list.isLoading}
      error={list.error}
    />
  );
}

export function StoreList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/stores");
  const found = useMemo(
    () => list.items.filter((store) => matches(search, store.id, store.node, store.path, store.class)),
    [list.items, search],
  );
  return (
    <>
      <div className="screen-head">
        <h1>{t("node.stores")}</h1>
        <span className="space" />
        <Search label={t("store.search")} />
      </div>
      <StoreTable list={list} found={found} />
    </>
  );
}
