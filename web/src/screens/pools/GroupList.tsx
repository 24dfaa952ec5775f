// The groups of a pool: which stores hold each of them.
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { BigTable } from "../../components/BigTable";
import { Choice } from "../../components/Choice";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, Search, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { formatCount } from "../../lib/format";
import { groupRows } from "../../lib/groups";
import type { GroupRow, GroupState, Holder } from "../../lib/groups";
import { replaceQuery, usePlace } from "../../lib/router";

const STATES: Readonly<Record<GroupState, readonly [Tone, Word]>> = {
  whole: ["good", "group.whole"],
  syncing: ["busy", "group.syncing"],
  lacking: ["bad", "group.lacking"],
};

/** How a store holds a group, in a word. */
function holding({ isMember, isInSync, isSyncing, serves }: Holder): readonly [Tone, Word] {
  if (!serves) return ["bad", "store.away"];
  if (isSyncing) return ["busy", "group.syncing"];
  if (!isMember) return ["odd", "group.leaves"];
  return isInSync ? ["good", "topology.good"] : ["bad", "group.lacking"];
}

function Holders({ row }: { row: GroupRow }) {
  const { t } = useSpeech();
  return (
    <span className="labels">
      {row.holders.map((holder) => {
        const [tone, word] = holding(holder);
        return (
          <Mark key={holder.id} tone={tone}>
            <Name text={`${holder.text}: ${t(word)}`} />
          </Mark>
        );
      })}
    </span>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<GroupRow> {
  return [
    { title: t("group.index"), width: 90, align: "right", sorter: (a, b) => a.index - b.index, dataIndex: "index" },
    {
      title: t("node.state"),
      width: 170,
      sorter: (a, b) => a.state.localeCompare(b.state),
      render: (_, { state }) => {
        const [tone, word] = STATES[state];
        return <Mark tone={tone}>{t(word)}</Mark>;
      },
    },
    { title: t("group.holders"), width: 760, render: (_, row) => <Holders row={row} /> },
    {
      title: t("group.epoch"),
      width: 120,
      align: "right",
      sorter: (a, b) => a.epoch - b.epoch,
      render: (_, { epoch }) => formatCount(epoch, locale),
    },
  ];
}

export function GroupList({ pool }: { pool: string }) {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const only = usePlace().query.get("groups") === "lacking" ? "lacking" : "all";
  const groups = useList("/api/v1/pools/{name}/groups", { name: pool });
  const stores = useList("/api/v1/stores");
  const rows = useMemo(() => groupRows(groups.items, stores.items), [groups.items, stores.items]);
  const found = useMemo(
    () =>
      rows.filter(
        ({ index, state, holders }) =>
          (only === "all" || state !== "whole") &&
          matches(search, String(index), ...holders.flatMap(({ id, text }) => [id, text])),
      ),
    [rows, search, only],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  const count = (items: readonly GroupRow[]) => formatCount(items.length, locale);
  return (
    <>
      <div className="screen-head">
        <h2>{t("pool.groups")}</h2>
        <span className="faint">{t("list.count", { shown: count(found), all: count(rows) })}</span>
        <span className="space" />
        <Choice
          label={t("group.which")}
          value={only}
          options={[
            ["all", t("group.which.all")],
            ["lacking", t("group.which.lacking")],
          ]}
          onChange={(groups) => replaceQuery({ groups })}
        />
        <Search label={t("group.search")} />
      </div>
      <p className="faint">{t("group.about")}</p>
      <BigTable
        label={t("pool.groups")}
        rows={found}
        columns={shown}
        rowKey="index"
        isLoading={groups.isLoading || stores.isLoading}
        error={groups.error ?? stores.error}
      />
    </>
  );
}
