import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { LabelsField, NameField } from "../../components/fields";
import { NamesField } from "../../components/inputs";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatTime } from "../../lib/format";
import { parseLabels } from "../../lib/labels";
import { placeHref } from "../../lib/router";

type SnapshotSet = components["schemas"]["SnapshotSet"];
/** So many of its volumes are links in a row. */
const FEW = 6;

function Volumes({ set }: { set: SnapshotSet }) {
  const { t } = useSpeech();
  const { volumes } = set;
  return (
    <span className="labels">
      {volumes.slice(0, FEW).map((name) => (
        <a key={name} href={placeHref(["volumes", name], { tab: "snapshots" })}>
          <Name text={name} />
        </a>
      ))}
      {volumes.length > FEW ? t("list.more", { count: volumes.length - FEW }) : null}
    </span>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<SnapshotSet> {
  return [
    { title: t("volume.id"), width: 100, align: "right", sorter: (a, b) => a.id - b.id, render: (_, { id }) => id },
    {
      title: t("snapshot.name"),
      width: 260,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    {
      title: t("set.taken"),
      width: 190,
      sorter: (a, b) => a.taken_at - b.taken_at,
      render: (_, { taken_at }) => formatTime(taken_at * 1000, locale),
    },
    { title: t("screen.volumes"), width: 560, render: (_, set) => <Volumes set={set} /> },
  ];
}

interface Wanted {
  name: string;
  volumes: string[];
  labels: string;
}

function TakeSet({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const all = useList("/api/v1/volumes");
  const plan = ({ name, volumes, labels: text }: Wanted) => {
    const labels = { ...parseLabels(text) };
    const words = Object.entries(labels).flatMap(([key, value]) => ["--label", `${key}=${value}`]);
    return {
      call: call("post", "/api/v1/snapshot-sets", { body: { name, volumes, labels } }),
      command: amitaCommand("volume", "snapshot", "create-set", name, ...volumes, ...words),
    };
  };
  return (
    <ActionDialog
      title={t("set.take")}
      verb={t("set.take")}
      about={t("set.take.about")}
      initial={{ name: "", volumes: [], labels: "" } as Wanted}
      fields={
        <>
          <NameField label={t("snapshot.name")} />
          <NamesField
            name="volumes"
            label={t("screen.volumes")}
            names={all.items.map(({ name }) => name)}
            isMany
            isNeeded
          />
          <LabelsField />
        </>
      }
      plan={plan}
      onClose={onClose}
    />
  );
}

export function SetList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/snapshot-sets");
  const found = useMemo(
    () => list.items.filter(({ name, volumes }) => matches(search, name, ...volumes)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("set.all")}
      search={t("set.search")}
      about={t("set.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="id"
      actions={
        <Act
          may="snapshot.create-set"
          type="primary"
          label={t("set.take")}
          dialog={(close) => <TakeSet onClose={close} />}
        />
      }
    />
  );
}
