// What an initiator has to prove: secrets are made here, sealed by the node that is asked, and shown this once.
import { Alert } from "antd";
import { useState } from "react";
import { call } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { Copyable } from "../../components/Copyable";
import { OptionField, TextField } from "../../components/inputs";
import { Pairs } from "../../components/Pairs";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { makeSecret, proofsChange, proofsOf } from "../../lib/iscsi";
import type { ProofsWanted, Secrets, SecretsChoice } from "../../lib/iscsi";
import type { Initiator } from "./InitiatorList";

/** What the API takes for a name for CHAP, or nothing. */
const USER = /^[\x21-\x7e]{0,255}$/;

/** The secrets, this once: they are in no other place of the page. */
function Made({ initiator, secrets }: { initiator: Initiator; secrets: Partial<Secrets> }) {
  const { t } = useSpeech();
  const { chap_user, chap_target_user } = initiator;
  return (
    <>
      <Alert type="warning" showIcon title={t("initiator.once")} />
      <Copyable label={t("initiator.secret")} text={secrets.chap ?? ""} />
      {secrets.chap_target === undefined ? null : (
        <Copyable label={t("initiator.secret.target")} text={secrets.chap_target} />
      )}
      <Pairs
        pairs={[
          [t("initiator.user"), <Name text={chap_user} whole />],
          ...(secrets.chap_target === undefined
            ? []
            : [
                [
                  t("initiator.target_user"),
                  <Name text={chap_target_user ?? t("initiator.own.each")} whole />,
                ] as const,
              ]),
        ]}
      />
      <p>{t("initiator.once.where")}</p>
    </>
  );
}

function choices({ chap, chap_target }: Initiator, t: Translate): (readonly [SecretsChoice, string])[] {
  return [
    ["both", t("initiator.make.both")],
    ["one", chap_target ? t("initiator.make.only") : t("initiator.make.one")],
    ["keep", t("initiator.make.keep")],
    ...(chap ? [["remove", t("initiator.make.remove")] as const] : []),
  ];
}

export function InitiatorSecrets({ initiator, onClose }: { initiator: Initiator; onClose: () => void }) {
  const { t } = useSpeech();
  const { name } = initiator;
  const seen = useSeen("/api/v1/initiators/{name}", { name });
  // The same ones also where an answer was lost and it is tried again.
  const [secrets] = useState<Secrets>(() => ({ chap: makeSecret(), chap_target: makeSecret() }));
  const plan = (wanted: ProofsWanted) => {
    const { body, command } = proofsChange(initiator, wanted, secrets);
    const params = { path: { name }, header: ifMatch(seen) };
    const isSecret = body.chap != null || body.chap_target != null;
    return { call: { ...call("patch", "/api/v1/initiators/{name}/keys", { params, body }), isSecret }, command };
  };
  const shows = (now: Initiator, { secrets: choice }: ProofsWanted) => {
    if (choice === "both") return <Made initiator={now} secrets={secrets} />;
    return choice === "one" ? <Made initiator={now} secrets={{ chap: secrets.chap }} /> : undefined;
  };
  return (
    <ActionDialog
      title={t("initiator.secrets.title", { name })}
      verb={t("action.change")}
      about={
        <>
          <p>{t("initiator.secrets.about")}</p>
          <p>{t("initiator.secrets.file")}</p>
        </>
      }
      initial={proofsOf(initiator)}
      fields={
        <>
          <OptionField name="secrets" label={t("initiator.secrets")} options={choices(initiator, t)} />
          <TextField
            name="user"
            label={t("initiator.user")}
            about={t("initiator.user.about")}
            fits={(text) => USER.test(text.trim())}
            why={t("initiator.user.wrong")}
          />
          <TextField
            name="targetUser"
            label={t("initiator.target_user")}
            about={t("initiator.target_user.about")}
            fits={(text) => USER.test(text.trim())}
            why={t("initiator.user.wrong")}
          />
        </>
      }
      seen={seen}
      plan={plan}
      shows={shows}
      onClose={onClose}
    />
  );
}
