// Images of volumes: copied out, and copied in.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { App, Button, Form, Modal, Progress } from "antd";
import { useEffect, useRef, useState } from "react";
import { call } from "../../api/call";
import { ifMatch, isOvertaken, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { useToken } from "../../api/token";
import { upload } from "../../api/upload";
import { Previews, Typed } from "../../components/ActionDialog";
import { Meanwhile } from "../../components/Meanwhile";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand, shellQuote } from "../../lib/command";
import { formatBytes } from "../../lib/format";
import type { Snapshot } from "./SnapshotTree";
import type { Volume } from "./VolumeList";

interface ExportProps {
  readonly volume: Volume;
  readonly snapshot?: Snapshot;
  readonly onClose: () => void;
}

/** A browser that shows a certificate saves it itself; one with a token cannot show that by a link. */
export function ExportVolume({ volume, snapshot, onClose }: ExportProps) {
  const { t } = useSpeech();
  const byToken = useToken() !== null;
  const name = snapshot === undefined ? volume.name : `${volume.name}@${snapshot.name}`;
  const size = formatBytes(snapshot?.size_bytes ?? volume.size_bytes);
  const plan = {
    call: call("get", "/api/v1/volumes/{name}/export", {
      params: { path: { name: volume.name }, query: snapshot === undefined ? {} : { snapshot: snapshot.name } },
    }),
    command: amitaCommand("volume", "export", name, `${name}.raw`),
  };
  return (
    <Modal
      open
      title={t("image.export.title", { name })}
      width={640}
      style={{ top: 40 }}
      onCancel={onClose}
      footer={[
        <Button key="close" onClick={onClose}>
          {t("action.close")}
        </Button>,
        byToken ? null : (
          <Button key="save" type="primary" href={plan.call.address} download={`${name}.raw`}>
            {t("image.export.save")}
          </Button>
        ),
      ]}
      destroyOnHidden
    >
      <div className="about">
        {t(snapshot === undefined ? "image.export.head" : "image.export.about", { size })}{" "}
        {byToken ? t("image.export.token") : ""}
      </div>
      <Previews plan={plan} options={["--fail", `-o ${shellQuote(`${name}.raw`)}`]} />
    </Modal>
  );
}

interface ImportProps {
  readonly volume: Volume;
  readonly onClose: () => void;
}

/** Why the file cannot be the volume's; null: it can. */
function refused(file: File | null, volume: Volume): "image.import.none" | "image.import.long" | null {
  if (file === null || file.size === 0) return "image.import.none";
  return file.size > volume.size_bytes ? "image.import.long" : null;
}

function useUpload(volume: Volume, seen: Seen, onClose: () => void) {
  const { t } = useSpeech();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [sent, setSent] = useState(0);
  const stop = useRef(new AbortController());
  // Whoever closes the dialog, or goes to another screen, ends it.
  useEffect(() => () => stop.current.abort(), []);
  const plan = {
    call: call("put", "/api/v1/volumes/{name}/data", {
      params: { path: { name: volume.name }, header: ifMatch(seen) },
      body: "",
    }),
  };
  const work = useMutation({
    mutationFn: (file: File) => {
      setSent(0);
      stop.current = new AbortController();
      return upload(plan.call, file, setSent, stop.current.signal);
    },
    onSuccess: ({ data }) => {
      message.success(t("image.import.done", { size: formatBytes(data.image_bytes), sum: data.sha256 }));
      onClose();
    },
    onError: (error) => (isOvertaken(error) ? void seen.look() : undefined),
    onSettled: () => queries.invalidateQueries(),
    gcTime: 0,
  });
  return { sent, plan, work };
}

export function ImportVolume({ volume, onClose }: ImportProps) {
  const { t } = useSpeech();
  const [form] = Form.useForm();
  const [file, setFile] = useState<File | null>(null);
  const seen = useSeen("/api/v1/volumes/{name}", { name: volume.name });
  const { sent, plan, work } = useUpload(volume, seen, onClose);
  const isLate = work.isError && isOvertaken(work.error);
  const isReady = seen.etag !== undefined && !isLate;
  const goOn = () => {
    seen.accept();
    work.reset();
  };
  const name = file?.name ?? "disk.raw";
  const why = refused(file, volume);
  const shown = {
    call: { ...plan.call, body: undefined },
    command: amitaCommand("volume", "import", name, volume.name, "--force"),
  };
  return (
    <Modal
      open
      title={t("image.import.title", { name: volume.name })}
      okText={t("image.import")}
      okButtonProps={{ danger: true, loading: work.isPending, disabled: why !== null || !isReady }}
      onOk={() => form.submit()}
      onCancel={onClose}
      mask={{ closable: !work.isPending }}
      width={640}
      style={{ top: 40 }}
      destroyOnHidden
    >
      <div className="about">
        {t("image.import.about", { size: formatBytes(volume.size_bytes), owner: volume.owner ?? t("volume.unused") })}
      </div>
      <Form
        form={form}
        layout="vertical"
        requiredMark={false}
        onFinish={() => (file === null || !isReady ? undefined : work.mutate(file))}
      >
        <Form.Item
          label={t("image.import.file")}
          extra={file === null || why === null ? undefined : t(why, { size: formatBytes(file.size) })}
        >
          <input
            type="file"
            aria-label={t("image.import.file")}
            disabled={work.isPending}
            onChange={({ target }) => setFile(target.files?.[0] ?? null)}
          />
        </Form.Item>
        <Typed name={volume.name} />
      </Form>
      {work.isPending && file !== null ? (
        <Progress
          aria-label={t("image.import.progress")}
          percent={Math.floor((100 * sent) / file.size)}
          format={() => `${formatBytes(sent)} / ${formatBytes(file.size)}`}
        />
      ) : null}
      {seen.error === null || isLate ? null : <Problem error={seen.error} />}
      {isLate ? <Meanwhile seen={seen} onGoOn={goOn} /> : null}
      {work.isError && !isLate ? <Problem error={work.error} /> : null}
      <Previews plan={shown} options={[`--upload-file ${shellQuote(name)}`]} />
    </Modal>
  );
}
