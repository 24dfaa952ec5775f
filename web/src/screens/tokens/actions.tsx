import { Alert } from "antd";
import { call } from "../../api/call";
import type { Result } from "../../api/call";
import { ActionDialog } from "../../components/ActionDialog";
import { Copyable } from "../../components/Copyable";
import { NameField } from "../../components/fields";
import { NumberField, OptionField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatTime } from "../../lib/format";
import type { Token } from "./Tokens";

const DAY_SECONDS = 86_400;
const ROLES: readonly (readonly [string, Word])[] = [
  ["viewer", "role.viewer"],
  ["auditor", "role.auditor"],
  ["operator", "role.operator"],
  ["admin", "role.admin"],
];

/** The secret, this once: it is in no other place of the page. */
function Secret({ made }: { made: Result<"post", "/api/v1/tokens"> }) {
  const { t, locale } = useSpeech();
  return (
    <>
      <Alert type="warning" showIcon title={t("token.once")} />
      <Copyable label={t("token.secret")} text={made.secret} />
      <p>{t("token.until", { name: made.name, role: made.role, time: formatTime(made.ends_at * 1000, locale) })}</p>
    </>
  );
}

export function CreateToken({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = ({ name, role, days }: { name: string; role: string; days: number }) => ({
    call: call("post", "/api/v1/tokens", { body: { name, role, life_s: (days ?? 0) * DAY_SECONDS } }),
    command: amitaCommand("token", "create", name, "--role", role, "--life", `${days ?? 0}d`),
  });
  return (
    <ActionDialog
      title={t("token.create")}
      verb={t("action.create")}
      about={t("token.create.about")}
      initial={{ name: "", role: "viewer", days: 30 }}
      fields={
        <>
          <NameField label={t("token.name")} />
          <OptionField
            name="role"
            label={t("token.role")}
            options={ROLES.map(([role, word]) => [role, `${role}: ${t(word)}`] as const)}
          />
          <NumberField name="days" label={t("token.days")} about={t("token.days.about")} min={1} max={366} />
        </>
      }
      plan={plan}
      shows={(made) => <Secret made={made} />}
      onClose={onClose}
    />
  );
}

export function RevokeToken({ token: { id, name, role }, onClose }: { token: Token; onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("token.revoke.title", { name })}
      verb={t("token.revoke")}
      about={t("token.revoke.about", { name, role })}
      initial={{}}
      typed={name}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/tokens/{id}", { params: { path: { id } } }),
        command: amitaCommand("token", "revoke", id),
      })}
      onClose={onClose}
    />
  );
}
