import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { BigTable } from "../../components/BigTable";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes, formatDuration, formatTime } from "../../lib/format";
import { Purge, Undelete } from "./actions";

export type DeletedVolume = components["schemas"]["DeletedVolume"];

function TrashActions({ volume }: { volume: DeletedVolume }) {
  const { t } = useSpeech();
  return (
    <span className="row-actions">
      {volume.former ? null : (
        <Act
          size="small"
          may="volume.undelete"
          label={t("trash.undelete")}
          dialog={(close) => <Undelete volume={volume} onClose={close} />}
        />
      )}
      <Act
        size="small"
        danger
        may="volume.purge"
        label={t("trash.purge")}
        dialog={(close) => <Purge volume={volume} onClose={close} />}
      />
    </span>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<DeletedVolume> {
  return [
    { title: t("volume.name"), width: 240, render: (_, { name }) => <Name text={name} /> },
    { title: t("volume.id"), width: 90, render: (_, { id }) => id },
    { title: t("volume.pool"), width: 140, render: (_, { pool }) => <Name text={pool} /> },
    { title: t("volume.size"), width: 110, align: "right", render: (_, { size_bytes }) => formatBytes(size_bytes) },
    { title: t("trash.deleted_at"), width: 190, render: (_, { deleted_at }) => formatTime(deleted_at * 1000, locale) },
    {
      title: t("trash.purge_in"),
      width: 140,
      render: (_, { purge_at }) => formatDuration(purge_at - Date.now() / 1000),
    },
    { title: t("volume.clones"), width: 90, align: "right", render: (_, { clones }) => clones },
    { title: t("list.actions"), width: 220, render: (_, volume) => <TrashActions volume={volume} /> },
  ];
}

export default function Trash() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const { items, isLoading, error } = useList("/api/v1/deleted-volumes");
  const found = useMemo(() => items.filter(({ name, pool }) => matches(search, name, pool)), [items, search]);
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.trash")}</h1>
        <span className="space" />
        <Search label={t("trash.search")} />
      </div>
      <p className="faint">{t("trash.about")}</p>
      <BigTable
        label={t("screen.trash")}
        rows={found}
        columns={shown}
        rowKey="id"
        isLoading={isLoading}
        error={error}
      />
    </>
  );
}
