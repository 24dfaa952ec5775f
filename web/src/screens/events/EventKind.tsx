// What an event of a kind means, and what is to be done about it.
import { Button, Modal, Spin } from "antd";
import { useThing } from "../../api/queries";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useDialog } from "../../components/useDialog";
import { useSpeech } from "../../i18n";

/** All kinds are asked for at once; they change with the program of the node alone. */
const MOST = 1_000;
const EVERY_MS = 3_600_000;

function Meaning({ kind, onClose }: { kind: string; onClose: () => void }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/event-kinds", {}, { query: { limit: MOST }, everyMs: EVERY_MS });
  const found = data?.data.items.find((one) => one.kind === kind);
  return (
    <Modal open title={kind} width={560} footer={null} onCancel={onClose}>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data !== undefined && found === undefined ? <p>{t("event.kind.unknown")}</p> : null}
      {found === undefined ? null : (
        <Pairs
          pairs={[
            [t("event.kind.meaning"), <Name text={found.meaning} whole />],
            [t("event.kind.advice"), <Name text={found.advice} whole />],
          ]}
        />
      )}
    </Modal>
  );
}

/** The kind of an event; pressed, it says what that means. */
export function EventKind({ kind }: { kind: string }) {
  const { t } = useSpeech();
  const { dialog, show } = useDialog();
  return (
    <>
      <Button
        type="link"
        size="small"
        className="kind"
        aria-label={t("event.kind.show", { kind })}
        onClick={() => show((close) => <Meaning kind={kind} onClose={close} />)}
      >
        <Name text={kind} />
      </Button>
      {dialog}
    </>
  );
}
