import { Modal } from "antd";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Copyable } from "../../components/Copyable";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { matchText } from "../../lib/alerts";
import { formatCount, formatDuration, formatTime } from "../../lib/format";
import { markOf } from "../../lib/known";
import { RemoveChannel, TestChannel } from "./actions";
import { SEVERITIES } from "./AlertList";

export type Channel = components["schemas"]["Channel"];

/** Their secrets are read from files where the sealing key is: by the command line. */
const EXAMPLES = [
  "amita notify add webhook NAME --url-file FILE --secret-file FILE",
  "amita notify add mail NAME --server HOST --user NAME --password-file FILE --from ADDRESS --to ADDRESS",
  "amita notify add syslog NAME --by tls --server HOST:PORT",
] as const;

function AddChannel({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const [webhook, mail, syslog] = EXAMPLES;
  return (
    <Modal open title={t("channel.add")} width={640} footer={null} onCancel={onClose}>
      <div className="about">{t("channel.add.about")}</div>
      <Copyable label="Webhook" text={webhook} />
      <Copyable label={t("channel.mail")} text={mail} />
      <Copyable label="Syslog" text={syslog} />
    </Modal>
  );
}

function Delivery({ channel }: { channel: Channel }) {
  const { t, locale } = useSpeech();
  const { delivered, failures, why, waiting } = channel;
  return (
    <>
      {failures > 0 ? <Mark tone="bad">{t("channel.failures", { count: failures })}</Mark> : null}
      {waiting > 0 ? <Mark tone="busy">{t("channel.waiting", { count: waiting })}</Mark> : null}
      {t("channel.delivered", { count: formatCount(delivered, locale) })} {why == null ? null : <Name text={why} />}
    </>
  );
}

function columns(t: Translate, locale: string): TableColumnsType<Channel> {
  return [
    {
      title: t("channel.name"),
      width: 160,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    { title: t("channel.kind"), width: 100, render: (_, { kind }) => kind },
    { title: t("channel.target"), width: 260, render: (_, { target }) => <Name text={target} /> },
    {
      title: t("channel.tells"),
      width: 260,
      render: (_, { least_severity, matches: which }) => (
        <>
          {t("event.at_least", { severity: markOf(SEVERITIES, least_severity, t)[1] })} <Name text={matchText(which)} />
        </>
      ),
    },
    {
      title: t("channel.repeat"),
      width: 130,
      render: (_, { repeat_s }) => formatDuration(repeat_s),
    },
    { title: t("channel.went"), width: 280, render: (_, channel) => <Delivery channel={channel} /> },
    {
      title: t("channel.last"),
      width: 190,
      render: (_, { delivered_at }) => (delivered_at == null ? "" : formatTime(delivered_at * 1000, locale)),
    },
    {
      title: t("list.actions"),
      width: 170,
      render: (_, channel) => (
        <span className="row-actions">
          <Act
            size="small"
            may="channel.test"
            label={t("channel.test")}
            dialog={(close) => <TestChannel channel={channel} onClose={close} />}
          />
          <Act
            size="small"
            danger
            may="channel.remove"
            label={t("channel.remove")}
            dialog={(close) => <RemoveChannel channel={channel} onClose={close} />}
          />
        </span>
      ),
    },
  ];
}

export function ChannelList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/channels");
  const found = useMemo(
    () => list.items.filter(({ name, kind, target, why }) => matches(search, name, kind, target, why)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("channel.all")}
      search={t("channel.search")}
      about={t("channel.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      actions={
        <Act
          may="channel.add"
          type="primary"
          label={t("channel.add")}
          dialog={(close) => <AddChannel onClose={close} />}
        />
      }
    />
  );
}
