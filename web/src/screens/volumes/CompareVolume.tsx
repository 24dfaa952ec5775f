// What was changed since a snapshot, up to a newer one or up to now.
import { useMutation } from "@tanstack/react-query";
import { Button, Modal, Select, Table } from "antd";
import { useState } from "react";
import { call, send } from "../../api/call";
import { useList } from "../../api/queries";
import { Previews } from "../../components/ActionDialog";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesOf, joined } from "../../lib/extents";
import type { Extent } from "../../lib/extents";
import { formatBytes } from "../../lib/format";
import { visible } from "../../lib/visible";
import type { Snapshot } from "./SnapshotTree";

/** Extents of one answer. */
const PIECE = 1_000;

interface Props {
  readonly snapshot: Snapshot;
  readonly onClose: () => void;
}

interface Found {
  readonly extents: readonly Extent[];
  readonly next: string | null;
}

function planOf(snapshot: Snapshot, to: string | undefined, after: string | null) {
  const query = {
    from: snapshot.name,
    limit: PIECE,
    ...(to === undefined ? {} : { to }),
    ...(after === null ? {} : { after }),
  };
  return {
    call: call("get", "/api/v1/volumes/{name}/diff", { params: { path: { name: snapshot.volume }, query } }),
    command: amitaCommand("volume", "diff", `${snapshot.volume}@${snapshot.name}`, to),
  };
}

function Extents({ found }: { found: Found }) {
  const { t } = useSpeech();
  const { extents, next } = found;
  const columns = [
    { title: t("diff.offset"), dataIndex: "offset", align: "right" as const },
    { title: t("diff.length"), dataIndex: "length", align: "right" as const, render: formatBytes },
    {
      title: t("diff.kind"),
      dataIndex: "kind",
      render: (kind: Extent["kind"]) => (kind === "data" ? t("diff.data") : t("diff.zero")),
    },
  ];
  return (
    <>
      <p role="status">
        {t("diff.sum", {
          count: extents.length,
          data: formatBytes(bytesOf(extents, "data")),
          zero: formatBytes(bytesOf(extents, "zero")),
        })}{" "}
        {next === null ? "" : t("diff.part")}
      </p>
      <Table
        size="small"
        rowKey="offset"
        columns={columns}
        dataSource={[...extents]}
        pagination={{ pageSize: 20, showSizeChanger: false, hideOnSinglePage: true }}
        scroll={{ y: 320 }}
      />
    </>
  );
}

export function CompareVolume({ snapshot, onClose }: Props) {
  const { t } = useSpeech();
  const all = useList("/api/v1/volumes/{name}/snapshots", { name: snapshot.volume });
  const [to, setTo] = useState("");
  const newer = to === "" ? undefined : to;
  const [found, setFound] = useState<Found | null>(null);
  const later = all.items.filter((one) => one.number > snapshot.number && !one.mark && !one.hidden);
  const work = useMutation({
    mutationFn: (after: string | null) => send(planOf(snapshot, newer, after).call),
    onSuccess: ({ data }, after) => {
      const known = after === null ? [] : (found?.extents ?? []);
      setFound({ extents: joined(known, data.items), next: data.next ?? null });
    },
    gcTime: 0,
  });
  const choose = (name: string) => {
    setTo(name);
    setFound(null);
    work.reset();
  };
  const next = found?.next ?? null;
  return (
    <Modal
      open
      title={t("diff.title", { volume: snapshot.volume, snapshot: snapshot.name })}
      width={720}
      style={{ top: 40 }}
      onCancel={onClose}
      footer={[
        <Button key="close" onClick={onClose}>
          {t("action.close")}
        </Button>,
        next === null ? null : (
          <Button key="more" loading={work.isPending} onClick={() => work.mutate(next)}>
            {t("diff.more")}
          </Button>
        ),
        <Button key="compare" type="primary" loading={work.isPending} onClick={() => work.mutate(null)}>
          {t("diff.verb")}
        </Button>,
      ]}
      destroyOnHidden
    >
      <div className="about">{t("diff.about")}</div>
      <Select
        aria-label={t("diff.to")}
        value={to}
        onChange={choose}
        style={{ width: "100%", marginBottom: 12 }}
        options={[
          { value: "", label: t("diff.now") },
          ...later.map(({ name }) => ({ value: name, label: visible(name) })),
        ]}
      />
      {work.isError ? <Problem error={work.error} /> : null}
      {found === null ? null : <Extents found={found} />}
      <Previews plan={planOf(snapshot, newer, null)} />
    </Modal>
  );
}
