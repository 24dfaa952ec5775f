// What can be done with initiators: who they are, and what they see of a target.
import { Form } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NamesField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { isIscsiName, iscsiName } from "../../lib/iscsi";
import type { Initiator } from "./InitiatorList";
import type { Target } from "./TargetList";

type Access = components["schemas"]["InitiatorAccess"];

export function InitiatorField({ name, known }: { name: string; known: readonly string[] }) {
  const { t } = useSpeech();
  return (
    <TextField
      name={name}
      label={t("initiator.name")}
      about={t("initiator.name.about")}
      fits={isIscsiName}
      why={t("initiator.name.wrong")}
      among={known}
      autoFocus
    />
  );
}

export function AddInitiator({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("initiator.add")}
      verb={t("initiator.add")}
      about={t("initiator.add.about")}
      initial={{ initiator: "" }}
      fields={<InitiatorField name="initiator" known={[]} />}
      plan={({ initiator }) => ({
        call: call("post", "/api/v1/initiators", { body: { name: iscsiName(initiator) } }),
      })}
      onClose={onClose}
    />
  );
}

interface Mask {
  initiator: string;
  sees: string;
  luns: string[];
}

function MaskFields({ luns }: { luns: readonly number[] }) {
  const { t } = useSpeech();
  const sees = Form.useWatch("sees") as string | undefined;
  return (
    <>
      <OptionField
        name="sees"
        label={t("initiator.mask.label")}
        options={[
          ["all", t("initiator.sees.all")],
          ["these", t("initiator.mask.these")],
        ]}
      />
      {sees === "these" ? (
        <NamesField
          name="luns"
          label={t("target.luns")}
          about={t("initiator.mask.about")}
          names={luns.map(String)}
          isMany
          isNeeded
        />
      ) : null}
    </>
  );
}

interface AllowProps {
  readonly target: Target;
  /** The numbers of its LUNs. */
  readonly luns: readonly number[];
  /** What the initiator sees so far, where it may log in already. */
  readonly access?: Access;
  readonly onClose: () => void;
}

export function AllowInitiator({ target, luns, access, onClose }: AllowProps) {
  const { t } = useSpeech();
  const initiators = useList("/api/v1/initiators");
  const { name } = target;
  const named = new Set(target.initiators.map(({ initiator }) => initiator));
  const known = initiators.items.map((one) => one.name).filter((one) => !named.has(one));
  const plan = ({ initiator: given, sees, luns: chosen }: Mask) => {
    const initiator = access?.initiator ?? iscsiName(given);
    const mask = sees === "all" ? null : (chosen ?? []).map(Number).sort((a, b) => a - b);
    return {
      call: call("put", "/api/v1/targets/{name}/initiators/{initiator}", {
        params: { path: { name, initiator } },
        body: { luns: mask },
      }),
      command: amitaCommand(
        ...["initiator", "allow", name, initiator],
        ...(mask ?? []).flatMap((lun) => ["--lun", String(lun)]),
      ),
    };
  };
  const initial: Mask = {
    initiator: "",
    sees: access?.luns == null ? "all" : "these",
    luns: access?.luns?.map(String) ?? [],
  };
  return (
    <ActionDialog
      title={
        access === undefined
          ? t("initiator.allow.title", { name })
          : t("initiator.mask.title", { name: access.initiator, target: name })
      }
      verb={access === undefined ? t("initiator.allow") : t("action.change")}
      about={access === undefined ? t("initiator.allow.about") : t("initiator.mask.change")}
      initial={initial}
      fields={
        <>
          {access === undefined ? <InitiatorField name="initiator" known={known} /> : null}
          <MaskFields luns={luns} />
        </>
      }
      plan={plan}
      onClose={onClose}
    />
  );
}

export function DenyInitiator({ target, access, onClose }: { target: Target; access: Access; onClose: () => void }) {
  const { t } = useSpeech();
  const { name, any_initiator, luns: all } = target;
  const { initiator, luns } = access;
  return (
    <ActionDialog
      title={t("initiator.deny.title", { name: initiator, target: name })}
      verb={t("initiator.deny")}
      about={any_initiator ? t("initiator.deny.any") : t("initiator.deny.about", { luns: luns?.length ?? all })}
      initial={{}}
      typed={initiator}
      danger
      plan={() => ({
        call: call("delete", "/api/v1/targets/{name}/initiators/{initiator}", {
          params: { path: { name, initiator } },
        }),
        command: amitaCommand("initiator", "deny", name, initiator),
      })}
      onClose={onClose}
    />
  );
}

export function RemoveInitiator({ initiator, onClose }: { initiator: Initiator; onClose: () => void }) {
  const { t } = useSpeech();
  const { name, targets } = initiator;
  const seen = useSeen("/api/v1/initiators/{name}", { name });
  const isAllowed = targets.length > 0;
  const plan = ({ force }: { force: boolean }) => ({
    call: call("delete", "/api/v1/initiators/{name}", {
      params: { path: { name }, query: force ? { force } : {}, header: ifMatch(seen) },
    }),
    command: amitaCommand("initiator", "remove", name, force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={t("host.remove.title", { name })}
      verb={t("host.remove")}
      about={
        isAllowed ? t("initiator.remove.about.allowed", { targets: targets.join(", ") }) : t("initiator.remove.about")
      }
      initial={{ force: false }}
      fields={isAllowed ? <CheckField name="force" label={t("host.remove.force")} /> : null}
      typed={name}
      danger
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}
