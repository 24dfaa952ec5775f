// What can be done with policies of backups.
import { Spin } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField } from "../../components/fields";
import { CheckField, NamesField, NumberField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { BACKUP_TARGETS, backupChange, backupCreation, backupValues, NEW_BACKUP } from "../../lib/backups";
import type { BackupPolicy, BackupValues } from "../../lib/backups";
import { amitaCommand } from "../../lib/command";
import { goTo } from "../../lib/router";
import { useVolumeNames } from "../schedules/parts";
import { KeepFields, TargetFields, WhenFields } from "../schedules/PolicyFields";

const LEAST_LIMIT_S = 60;
const MOST_LIMIT_S = 2_592_000;
const MOST_PERCENT = 100;

function Fields({ isNew }: { isNew: boolean }) {
  const { t } = useSpeech();
  const repositories = useList("/api/v1/backup-repositories");
  return (
    <>
      {isNew ? <NameField label={t("policy.name")} /> : null}
      <TargetFields targets={BACKUP_TARGETS} />
      <NamesField
        name="repository"
        label={t("backup.repository")}
        names={repositories.items.map(({ name }) => name)}
        isNeeded
      />
      <WhenFields />
      <p>{t("backup.keep.about")}</p>
      <KeepFields />
      <NumberField
        name="limit"
        label={t("backup.limit.seconds")}
        about={t("backup.limit.about")}
        min={LEAST_LIMIT_S}
        max={MOST_LIMIT_S}
      />
      <CheckField name="together" label={t("policy.together")} about={t("backup.together.about")} />
      <TextField name="verify" label={t("verify.schedule")} about={t("verify.schedule.about")} />
      <NumberField
        name="verifySample"
        label={t("verify.percent")}
        about={t("verify.percent.about")}
        min={1}
        max={MOST_PERCENT}
      />
    </>
  );
}

export function CreateBackupPolicy({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = (values: BackupValues) => {
    const { body, command } = backupCreation({ ...values, keep: { ...NEW_BACKUP.keep, ...values.keep } });
    return { call: call("post", "/api/v1/backup-policies", { body }), command };
  };
  return (
    <ActionDialog
      title={t("policy.create")}
      verb={t("action.create")}
      about={t("backup.create.about")}
      initial={NEW_BACKUP}
      fields={<Fields isNew />}
      plan={plan}
      done={({ name }) => (goTo(["backups", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

interface Props {
  readonly policy: BackupPolicy;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The policy that the page shows. */
function useSeenPolicy({ policy, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/backup-policies/{name}", { name: policy.name }, { shown: { data: policy, etag } });
}

function changing({ name }: BackupPolicy, seen: Seen, body: components["schemas"]["BackupPolicyChange"]) {
  return call("patch", "/api/v1/backup-policies/{name}", {
    params: { path: { name }, header: ifMatch(seen) },
    body,
  });
}

/** The dialog is shown when the names of the volumes are known: it holds them. */
export function SetBackupPolicy(given: Props) {
  const { t } = useSpeech();
  const names = useVolumeNames();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const ids = policy.target.volume_ids ?? [];
  if (ids.length > 0 && names.size === 0) return <Spin aria-label={t("frame.loading")} />;
  const from = backupValues(policy, names);
  const plan = (to: BackupValues) => {
    const { body, command } = backupChange(from, { ...to, name: from.name, keep: { ...from.keep, ...to.keep } });
    return { call: changing(policy, seen, body), command };
  };
  return (
    <ActionDialog
      title={t("policy.set.title", { name: policy.name })}
      verb={t("action.change")}
      about={t("backup.set.about")}
      initial={from}
      fields={<Fields isNew={false} />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function PauseBackupPolicy(given: Props) {
  const { t } = useSpeech();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const { name } = policy;
  const paused = !policy.paused;
  return (
    <ActionDialog
      title={paused ? t("policy.pause.title", { name }) : t("policy.resume.title", { name })}
      verb={paused ? t("policy.pause") : t("policy.resume")}
      about={paused ? t("backup.pause.about") : t("backup.resume.about")}
      initial={{}}
      seen={seen}
      plan={() => ({
        call: changing(policy, seen, { paused }),
        command: amitaCommand("backup", "policy", "set", name, paused ? "--pause" : "--resume"),
      })}
      onClose={onClose}
    />
  );
}

export function RunBackupPolicy({ policy: { name }, onClose }: Omit<Props, "etag">) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("backup.run.title", { name })}
      verb={t("backup.run")}
      about={t("backup.run.about")}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/backup-policies/{name}/runs", { params: { path: { name } } }),
        command: amitaCommand("backup", "policy", "run", name),
      })}
      done={() => t("backup.run.asked")}
      onClose={onClose}
    />
  );
}

export function VerifyBackupPolicy({ policy: { name }, onClose }: Omit<Props, "etag">) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("verify.run.title", { name })}
      verb={t("verify.run")}
      about={t("verify.run.about")}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/backup-policies/{name}/verifications", { params: { path: { name } } }),
        command: amitaCommand("backup", "policy", "verify", name),
      })}
      done={() => t("backup.run.asked")}
      onClose={onClose}
    />
  );
}

export function DeleteBackupPolicy(given: Props) {
  const { t } = useSpeech();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const { name } = policy;
  return (
    <ActionDialog
      title={t("policy.delete.title", { name })}
      verb={t("policy.delete")}
      about={t("backup.delete.about")}
      initial={{}}
      typed={name}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/backup-policies/{name}", {
          params: { path: { name }, header: ifMatch(seen) },
        }),
        command: amitaCommand("backup", "policy", "delete", name),
      })}
      done={() => (goTo(["backups"]), t("action.done"))}
      onClose={onClose}
    />
  );
}
