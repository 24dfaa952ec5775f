import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { placeHref } from "../../lib/router";
import { ExportVolume, Unexport } from "./exports";
import type { NbdExport } from "./exports";

/** To whom it is served, and how. */
export function ExportDoors({ found }: { found: NbdExport }) {
  const { t } = useSpeech();
  return (
    <span className="labels">
      {found.any_client ? <Mark tone="odd">{t("export.any_client")}</Mark> : null}
      {found.clients.map((name) => (
        <Mark key={`client ${name}`}>
          <Name text={t("export.client", { name })} />
        </Mark>
      ))}
      {found.tenants.map((name) => (
        <Mark key={`tenant ${name}`}>
          <Name text={t("export.tenant", { name })} />
        </Mark>
      ))}
      {found.read_only ? <Mark>{t("export.read_only")}</Mark> : null}
      {found.shared ? <Mark tone="odd">{t("export.shared")}</Mark> : null}
    </span>
  );
}

function columns(t: Translate): TableColumnsType<NbdExport> {
  return [
    {
      title: t("volume.name"),
      width: 260,
      sorter: (a, b) => a.volume.localeCompare(b.volume),
      render: (_, { volume }) => (
        <a href={placeHref(["volumes", volume], { tab: "attach" })}>
          <Name text={volume} />
        </a>
      ),
    },
    { title: t("export.doors"), width: 480, render: (_, found) => <ExportDoors found={found} /> },
    {
      title: t("list.actions"),
      width: 220,
      render: (_, found) => (
        <span className="row-actions">
          <Act
            size="small"
            may="volume.export"
            label={t("action.change")}
            dialog={(close) => <ExportVolume volume={found.volume} present={found} onClose={close} />}
          />
          <Act
            size="small"
            danger
            may="volume.unexport"
            label={t("export.end")}
            dialog={(close) => <Unexport volume={found.volume} onClose={close} />}
          />
        </span>
      ),
    },
  ];
}

export function ExportList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/nbd-exports");
  const found = useMemo(
    () => list.items.filter(({ volume, clients, tenants }) => matches(search, volume, ...clients, ...tenants)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("export.all")}
      search={t("export.search")}
      about={t("export.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="volume"
      actions={
        <Act
          may="volume.export"
          type="primary"
          label={t("export.make")}
          dialog={(close) => <ExportVolume onClose={close} />}
        />
      }
    />
  );
}
