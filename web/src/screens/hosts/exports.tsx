// What can be done with exports: what volumes are served as by NBD.
import { Form } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NamesField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { exportCommand } from "../../lib/exports";

export type NbdExport = components["schemas"]["NbdExport"];

interface Wanted {
  volume: string;
  clients: string[];
  tenants: string[];
  any_client: boolean;
  read_only: boolean;
  shared: boolean;
}

/** The volume that is not said yet. */
function VolumeField() {
  const { t } = useSpeech();
  const volumes = useList("/api/v1/volumes");
  return <NamesField name="volume" label={t("volume.name")} names={volumes.items.map(({ name }) => name)} isNeeded />;
}

function Fields({ isNew }: { isNew: boolean }) {
  const { t } = useSpeech();
  const somebody = Form.useWatch((values: Wanted) => {
    const { clients = [], tenants = [], any_client = false } = values;
    return any_client || clients.length > 0 || tenants.length > 0;
  }) as boolean | undefined;
  return (
    <>
      {isNew ? <VolumeField /> : null}
      <NamesField name="clients" label={t("export.clients")} about={t("export.clients.about")} names={[]} isOpen />
      <NamesField name="tenants" label={t("export.tenants")} about={t("export.tenants.about")} names={[]} isOpen />
      <CheckField name="any_client" label={t("export.any_client.set")} about={t("export.any_client.about")} />
      <CheckField name="read_only" label={t("export.read_only.set")} />
      <CheckField name="shared" label={t("export.shared.set")} />
      {somebody === false ? <p className="faint">{t("export.nobody")}</p> : null}
    </>
  );
}

interface Props {
  /** The volume; without it, it is asked for. */
  readonly volume?: string;
  /** As what it is served so far. */
  readonly present?: NbdExport;
  readonly onClose: () => void;
}

export function ExportVolume({ volume, present, onClose }: Props) {
  const { t } = useSpeech();
  const isThere = present !== undefined;
  const seen = useSeen("/api/v1/nbd-exports/{volume}", { volume: volume ?? "" }, { enabled: isThere });
  const { clients = [], tenants = [], any_client = false, read_only = false, shared = false } = present ?? {};
  const initial: Wanted = { volume: volume ?? "", clients, tenants, any_client, read_only, shared };
  const plan = (given: Wanted) => {
    const { volume: name, ...body } = { ...given, volume: volume ?? given.volume ?? "" };
    return {
      call: call("put", "/api/v1/nbd-exports/{volume}", {
        params: { path: { volume: name }, header: isThere ? ifMatch(seen) : {} },
        body,
      }),
      command: exportCommand(name, body),
    };
  };
  return (
    <ActionDialog
      title={volume === undefined ? t("export.make") : t("export.make.title", { name: volume })}
      verb={present === undefined ? t("export.make") : t("action.change")}
      about={present === undefined ? t("export.make.about") : t("export.replace.about")}
      initial={initial}
      fields={<Fields isNew={volume === undefined} />}
      seen={isThere ? seen : undefined}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function Unexport({ volume, onClose }: { volume: string; onClose: () => void }) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/nbd-exports/{volume}", { volume });
  return (
    <ActionDialog
      title={t("export.end.title", { name: volume })}
      verb={t("export.end")}
      about={t("export.end.about")}
      initial={{}}
      typed={volume}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/nbd-exports/{volume}", {
          params: { path: { volume }, header: ifMatch(seen) },
        }),
        command: amitaCommand("nbd", "unexport", volume),
      })}
      onClose={onClose}
    />
  );
}
