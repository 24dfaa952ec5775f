import { Modal } from "antd";
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { Copyable } from "../../components/Copyable";
import { TextField } from "../../components/inputs";
import { ListScreen } from "../../components/ListScreen";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { placeHref } from "../../lib/router";
import { RemoveHost } from "./removals";
import { HostProofs } from "./SubsystemPage";

export type Host = components["schemas"]["Host"];

/** As the specification of NVMe has it; the API knows more of it, and says so. */
export function isNqn(text: string): boolean {
  return /^nqn\.\d{4}-\d{2}\..+/.test(text);
}

function AddHost({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("host.add")}
      verb={t("host.add")}
      about={t("host.add.about")}
      initial={{ nqn: "" }}
      fields={
        <TextField
          name="nqn"
          label={t("host.nqn")}
          about={t("host.nqn.about")}
          autoFocus
          fits={isNqn}
          why={t("host.nqn.wrong")}
        />
      }
      plan={({ nqn }) => ({
        call: call("post", "/api/v1/hosts", { body: { nqn: nqn.trim() } }),
        command: amitaCommand("host", "add", nqn.trim()),
      })}
      onClose={onClose}
    />
  );
}

/** Keys are sealed where the sealing key is: by the command line. They are in no page. */
function Keys({ host, onClose }: { host: Host; onClose: () => void }) {
  const { t } = useSpeech();
  const { nqn, dhchap, tls } = host;
  return (
    <Modal open title={t("host.keys.title", { name: nqn })} width={640} footer={null} onCancel={onClose}>
      <div className="about">
        <HostProofs host={host} />
        <p>{t("host.keys.about")}</p>
      </div>
      <Copyable label={t("host.keys.dhchap")} text={amitaCommand("host", "key", nqn, "--generate-dhchap")} />
      <Copyable label={t("host.keys.tls")} text={amitaCommand("host", "key", nqn, "--generate-tls")} />
      {dhchap ? (
        <Copyable label={t("host.keys.dhchap.remove")} text={amitaCommand("host", "key", nqn, "--remove-dhchap")} />
      ) : null}
      {tls ? (
        <Copyable label={t("host.keys.tls.remove")} text={amitaCommand("host", "key", nqn, "--remove-tls")} />
      ) : null}
    </Modal>
  );
}

function Subsystems({ host }: { host: Host }) {
  const { t } = useSpeech();
  if (host.subsystems.length === 0) return t("none");
  return (
    <span className="labels">
      {host.subsystems.slice(0, 4).map((name) => (
        <a key={name} href={placeHref(["hosts", name])}>
          <Name text={name} />
        </a>
      ))}
      {host.subsystems.length > 4 ? t("list.more", { count: host.subsystems.length - 4 }) : null}
    </span>
  );
}

function HostActions({ host }: { host: Host }) {
  const { t } = useSpeech();
  return (
    <span className="row-actions">
      <Act
        size="small"
        may="host.key"
        label={t("host.keys")}
        dialog={(close) => <Keys host={host} onClose={close} />}
      />
      <Act
        size="small"
        danger
        may="host.remove"
        label={t("host.remove")}
        dialog={(close) => <RemoveHost host={host} onClose={close} />}
      />
    </span>
  );
}

function columns(t: Translate): TableColumnsType<Host> {
  return [
    {
      title: t("host.nqn"),
      width: 460,
      sorter: (a, b) => a.nqn.localeCompare(b.nqn),
      render: (_, { nqn }) => <Name text={nqn} />,
    },
    { title: t("host.proves"), width: 260, render: (_, host) => <HostProofs host={host} /> },
    {
      title: t("host.subsystems"),
      width: 260,
      sorter: (a, b) => a.subsystems.length - b.subsystems.length,
      render: (_, host) => <Subsystems host={host} />,
    },
    { title: t("list.actions"), width: 170, render: (_, host) => <HostActions host={host} /> },
  ];
}

export function HostList() {
  const { t } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/hosts");
  const found = useMemo(
    () => list.items.filter(({ nqn, subsystems }) => matches(search, nqn, ...subsystems)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t), [t]);
  return (
    <ListScreen
      title={t("host.all")}
      search={t("host.search")}
      about={t("host.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="nqn"
      actions={
        <Act may="host.add" type="primary" label={t("host.add")} dialog={(close) => <AddHost onClose={close} />} />
      }
    />
  );
}
