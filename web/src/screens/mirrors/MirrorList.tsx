import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatDuration, formatTime } from "../../lib/format";
import { lagOf, lastPoint } from "../../lib/mirrors";
import type { Fact, Mirror } from "../../lib/mirrors";
import { placeHref } from "../../lib/router";
import { lagText, MirrorState, PassMeter, Role, roleText, useFacts } from "./parts";

function PointCell({ mirror }: { mirror: Mirror }) {
  const { t, locale } = useSpeech();
  const point = lastPoint(mirror);
  if (point === undefined) return t("none");
  return <Name text={`${point.name}, ${formatTime(point.cut_at * 1000, locale)}`} />;
}

/** What the other end was when it was looked at last. */
function OtherEnd({ mirror: { seen } }: { mirror: Mirror }) {
  const { t } = useSpeech();
  if (seen == null) return t("mirror.never_seen");
  const ago = formatDuration(Date.now() / 1000 - seen.at);
  return <Name text={t("mirror.seen_ago", { role: roleText(seen.role, seen.handed, t), ago })} />;
}

function columns(facts: readonly Fact[], t: Translate): TableColumnsType<Mirror> {
  const lag = (mirror: Mirror) => lagOf(mirror, Date.now() / 1000) ?? -1;
  return [
    {
      title: t("mirror.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => (
        <a href={placeHref(["mirrors", name])}>
          <Name text={name} />
        </a>
      ),
    },
    {
      title: t("mirror.role"),
      width: 170,
      sorter: (a, b) => a.role.localeCompare(b.role),
      render: (_, { role, handed }) => <Role role={role} handed={handed} />,
    },
    { title: t("node.state"), width: 240, render: (_, mirror) => <MirrorState mirror={mirror} facts={facts} /> },
    {
      title: t("mirror.lag"),
      width: 120,
      align: "right",
      sorter: (a, b) => lag(a) - lag(b),
      render: (_, mirror) => lagText(mirror, t),
    },
    { title: t("mirror.point"), width: 260, render: (_, mirror) => <PointCell mirror={mirror} /> },
    { title: t("mirror.other"), width: 260, render: (_, mirror) => <OtherEnd mirror={mirror} /> },
    {
      title: t("mirror.pass"),
      width: 200,
      render: (_, { pass }) => (pass == null ? "" : <PassMeter pass={pass} />),
    },
    {
      title: t("screen.volumes"),
      width: 260,
      sorter: (a, b) => a.volumes.length - b.volumes.length,
      render: (_, { volumes }) => <Name text={volumes.join(", ")} />,
    },
  ];
}

export function MirrorList() {
  const { t } = useSpeech();
  const search = useSearch();
  const facts = useFacts();
  const list = useList("/api/v1/mirrors");
  const found = useMemo(
    () => list.items.filter(({ name, role, volumes }) => matches(search, name, role, ...volumes)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(facts, t), [facts, t]);
  return (
    <ListScreen
      title={t("screen.mirrors")}
      search={t("mirror.search")}
      about={t("mirror.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("mirror.first")}
    />
  );
}
