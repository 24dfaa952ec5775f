import { LockOutlined } from "@ant-design/icons";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Labels } from "../../components/Labels";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes, formatCount, formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { CreateVolume } from "./CreateVolume";

export type Volume = components["schemas"]["Volume"];

function columns(t: Translate, locale: string): TableColumnsType<Volume> {
  const byText = (text: (volume: Volume) => string) => (a: Volume, b: Volume) => text(a).localeCompare(text(b));
  return [
    {
      title: t("volume.name"),
      width: 260,
      sorter: byText(({ name }) => name),
      render: (_, { name, protected: isProtected }) => (
        <>
          <a href={placeHref(["volumes", name])}>
            <Name text={name} />
          </a>
          {isProtected ? <LockOutlined aria-label={t("volume.protected")} title={t("volume.protected")} /> : null}
        </>
      ),
    },
    {
      title: t("volume.pool"),
      width: 140,
      sorter: byText(({ pool }) => pool),
      render: (_, { pool }) => <Name text={pool} />,
    },
    {
      title: t("volume.size"),
      width: 110,
      align: "right",
      sorter: (a, b) => a.size_bytes - b.size_bytes,
      render: (_, { size_bytes }) => formatBytes(size_bytes),
    },
    {
      title: t("volume.owner"),
      width: 130,
      sorter: byText(({ owner }) => owner ?? ""),
      render: (_, { owner }) => (owner == null ? "" : <Name text={owner} />),
    },
    {
      title: t("volume.parent"),
      width: 200,
      render: (_, { parent }) => (parent == null ? "" : <Name text={parent} />),
    },
    { title: t("volume.labels"), width: 260, render: (_, { labels }) => <Labels labels={labels} /> },
    {
      title: t("volume.created"),
      width: 190,
      sorter: (a, b) => (a.created_at ?? 0) - (b.created_at ?? 0),
      render: (_, { created_at }) => (created_at == null ? "" : formatTime(created_at * 1000, locale)),
    },
  ];
}

function labelTexts(volume: Volume): string[] {
  return Object.entries(volume.labels).map(([key, value]) => `${key}=${value}`);
}

export function VolumeList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { items, isLoading, error } = useList("/api/v1/volumes");
  const found = useMemo(
    () =>
      items.filter((volume) =>
        matches(search, volume.name, volume.pool, volume.owner, volume.parent, ...labelTexts(volume)),
      ),
    [items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.volumes")}</h1>
        <span className="faint">
          {t("list.count", { shown: formatCount(found.length, locale), all: formatCount(items.length, locale) })}
        </span>
        <span className="space" />
        <Search label={t("volume.search")} />
        <Act
          may="volume.create"
          type="primary"
          label={t("volume.create")}
          dialog={(close) => <CreateVolume onClose={close} />}
        />
      </div>
      <BigTable
        label={t("screen.volumes")}
        rows={found}
        columns={shown}
        rowKey="name"
        isLoading={isLoading}
        error={error}
      />
    </>
  );
}
