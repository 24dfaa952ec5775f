// What can be done with targets.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField } from "../../components/fields";
import { CheckField, NamesField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { isIscsiName, isPercent, targetChange } from "../../lib/iscsi";
import type { Doors } from "../../lib/iscsi";
import { goTo } from "../../lib/router";
import { targetPlace } from "./TargetList";
import type { Target } from "./TargetList";

/** The names of the nodes that speak iSCSI. */
export function useIscsiNodes(): string[] {
  const nodes = useList("/api/v1/nodes");
  return nodes.items.filter(({ iscsi }) => iscsi.length > 0).map(({ name }) => name);
}

function DoorFields() {
  const { t } = useSpeech();
  const names = useIscsiNodes();
  return (
    <>
      <NamesField
        name="gateways"
        label={t("target.gateways")}
        about={t("target.gateways.about")}
        names={names}
        isMany
      />
      <CheckField name="chap_required" label={t("target.chap.set")} about={t("target.chap.about")} />
      <CheckField name="any_initiator" label={t("target.any_initiator.set")} about={t("target.any_initiator.about")} />
      <CheckField name="initiators_move" label={t("target.move.set")} about={t("target.move.about")} />
      <TextField
        name="warning"
        label={t("target.warning")}
        about={t("target.warning.about")}
        fits={isPercent}
        why={t("target.warning.wrong")}
      />
    </>
  );
}

interface NewTarget extends Doors {
  name: string;
  iqn: string;
}

export function CreateTarget({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = ({ name, iqn: given, gateways, warning, ...doors }: NewTarget) => {
    const { any_initiator, chap_required, initiators_move } = doors;
    const iqn = given.trim();
    const percent = warning === "" ? null : Number(warning);
    return {
      call: call("post", "/api/v1/targets", {
        body: {
          ...{ name, iqn: iqn === "" ? null : iqn, gateways, any_initiator, chap_required, initiators_move },
          space_warning_percent: percent,
        },
      }),
      command: amitaCommand(
        ...["target", "create", name],
        ...(iqn === "" ? [] : ["--iqn", iqn]),
        ...gateways.flatMap((node) => ["--gateway", node]),
        any_initiator ? "--any-initiator" : undefined,
        chap_required ? "--require-chap" : undefined,
        initiators_move ? "--initiators-move" : undefined,
        ...(percent === null ? [] : ["--space-warning", String(percent)]),
      ),
    };
  };
  const nothing = { gateways: [], any_initiator: false, chap_required: false, initiators_move: false, warning: "" };
  return (
    <ActionDialog
      title={t("target.create")}
      verb={t("action.create")}
      about={t("target.create.about")}
      initial={{ name: "", iqn: "", ...nothing } as NewTarget}
      fields={
        <>
          <NameField label={t("target.name")} />
          <TextField
            name="iqn"
            label={t("target.iqn")}
            about={t("target.iqn.about")}
            fits={(text) => text === "" || isIscsiName(text)}
            why={t("initiator.name.wrong")}
          />
          <DoorFields />
        </>
      }
      plan={plan}
      done={({ name }) => (goTo(targetPlace(name)), t("action.done"))}
      onClose={onClose}
    />
  );
}

export interface Props {
  readonly target: Target;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The target that the page shows. */
function useSeenTarget({ target, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/targets/{name}", { name: target.name }, { shown: { data: target, etag } });
}

export function SetTarget({ target, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenTarget({ target, etag });
  const { name, gateways, any_initiator, chap_required, initiators_move, space_warning_percent } = target;
  const warning = space_warning_percent == null ? "" : String(space_warning_percent);
  const initial: Doors = { gateways, any_initiator, chap_required, initiators_move, warning };
  const plan = (wanted: Doors) => {
    const { body, command } = targetChange(name, initial, wanted);
    const params = { path: { name }, header: ifMatch(seen) };
    return { call: call("patch", "/api/v1/targets/{name}", { params, body }), command };
  };
  return (
    <ActionDialog
      title={t("target.set.title", { name })}
      verb={t("action.change")}
      about={t("target.set.about")}
      initial={initial}
      fields={<DoorFields />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function DeleteTarget({ target, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenTarget({ target, etag });
  const { name, luns, initiators, any_initiator } = target;
  const plan = ({ force }: { force: boolean }) => ({
    call: call("delete", "/api/v1/targets/{name}", {
      params: { path: { name }, query: force ? { force } : {}, header: ifMatch(seen) },
    }),
    command: amitaCommand("target", "delete", name, force ? "--force" : undefined),
  });
  const who = any_initiator ? t("target.any_initiator") : t("target.initiators.count", { count: initiators.length });
  return (
    <ActionDialog
      title={t("target.delete.title", { name })}
      verb={t("target.delete")}
      about={luns === 0 ? t("target.delete.empty") : t("target.delete.about", { who, luns })}
      initial={{ force: false }}
      fields={luns === 0 ? null : <CheckField name="force" label={t("target.delete.force")} />}
      typed={name}
      danger
      seen={seen}
      plan={plan}
      done={() => (goTo(["hosts"], { tab: "targets" }), t("action.done"))}
      onClose={onClose}
    />
  );
}
