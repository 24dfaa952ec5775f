// What can be done with repositories of backups. What their files hold is in no page: the cluster knows paths alone.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField, RateField } from "../../components/fields";
import { NamesField, NumberField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import {
  LEAST_BACKUP_RATE,
  NEW_REPOSITORY,
  repositoryChange,
  repositoryCreation,
  repositoryValues,
} from "../../lib/backups";
import type { Repository, RepositoryValues } from "../../lib/backups";
import { amitaCommand } from "../../lib/command";

const MOST_LOCK_DAYS = 36_500;

function Fields({ isNew }: { isNew: boolean }) {
  const { t } = useSpeech();
  const nodes = useList("/api/v1/nodes");
  return (
    <>
      {isNew ? <NameField label={t("repository.name")} /> : null}
      <TextField name="address" label={t("repository.address")} about={t("repository.address.about")} isNeeded />
      <TextField name="key_file" label={t("repository.key_file")} about={t("repository.key_file.about")} isNeeded />
      <NamesField
        name="nodes"
        label={t("repository.nodes")}
        about={t("repository.nodes.about")}
        names={nodes.items.map(({ name }) => name)}
        isMany
      />
      <RateField label={t("repository.rate")} least={LEAST_BACKUP_RATE} />
      <NumberField
        name="lockDays"
        label={t("repository.lock")}
        about={t("repository.lock.about")}
        min={0}
        max={MOST_LOCK_DAYS}
      />
      <p>{t("repository.bucket")}</p>
      <TextField name="s3_credentials" label={t("repository.s3.credentials")} />
      <div className="field-row">
        <TextField name="s3_endpoint" label={t("repository.s3.endpoint")} />
        <TextField name="s3_region" label={t("repository.s3.region")} />
        <TextField name="s3_ca" label={t("repository.s3.ca")} />
      </div>
      <TextField name="vault" label={t("repository.vault")} about={t("repository.vault.about")} />
    </>
  );
}

export function AddRepository({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = (values: RepositoryValues) => {
    const { body, command } = repositoryCreation(values);
    return { call: call("post", "/api/v1/backup-repositories", { body }), command };
  };
  return (
    <ActionDialog
      title={t("repository.add")}
      verb={t("repository.add")}
      about={t("repository.add.about")}
      initial={NEW_REPOSITORY}
      fields={<Fields isNew />}
      plan={plan}
      onClose={onClose}
    />
  );
}

interface Props {
  readonly repository: Repository;
  readonly onClose: () => void;
}

export function SetRepository({ repository, onClose }: Props) {
  const { t } = useSpeech();
  const { name } = repository;
  const seen = useSeen("/api/v1/backup-repositories/{name}", { name });
  const from = repositoryValues(repository);
  const plan = (to: RepositoryValues) => {
    const { body, command } = repositoryChange(from, to);
    return {
      call: call("patch", "/api/v1/backup-repositories/{name}", {
        params: { path: { name }, header: ifMatch(seen) },
        body,
      }),
      command,
    };
  };
  return (
    <ActionDialog
      title={t("repository.set.title", { name })}
      verb={t("action.change")}
      about={t("repository.set.about")}
      initial={from}
      fields={<Fields isNew={false} />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function RemoveRepository({ repository: { name }, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/backup-repositories/{name}", { name });
  return (
    <ActionDialog
      title={t("repository.remove.title", { name })}
      verb={t("repository.remove")}
      about={t("repository.remove.about")}
      initial={{}}
      typed={name}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/backup-repositories/{name}", {
          params: { path: { name }, header: ifMatch(seen) },
        }),
        command: amitaCommand("backup", "repository", "remove", name),
      })}
      onClose={onClose}
    />
  );
}
