// What begins and ends a volume's works.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NamesField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import type { Volume } from "./VolumeList";

interface Props {
  readonly volume: Volume;
  readonly onClose: () => void;
}

export function FlattenVolume({ volume: { name, parent }, onClose }: Props) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("work.flatten.title", { name })}
      verb={t("work.flatten.begin")}
      about={t("work.flatten.about", { parent: parent ?? t("none") })}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/volumes/{name}/flatten", { params: { path: { name } } }),
        command: amitaCommand("volume", "flatten", name, "--no-wait"),
      })}
      done={() => t("work.begun")}
      onClose={onClose}
    />
  );
}

export function CancelFlatten({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("work.flatten.cancel.title", { name })}
      verb={t("work.flatten.cancel")}
      about={t("work.flatten.cancel.about")}
      initial={{}}
      plan={() => ({
        call: call("delete", "/api/v1/volumes/{name}/flatten", { params: { path: { name } } }),
        command: amitaCommand("volume", "flatten", name, "--cancel"),
      })}
      onClose={onClose}
    />
  );
}

export function ScrubVolume({ volume: { name }, onClose }: Props) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("work.scrub.title", { name })}
      verb={t("work.scrub.begin")}
      about={t("work.scrub.about")}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/volumes/{name}/scrub", { params: { path: { name } } }),
        command: amitaCommand("volume", "scrub", name, "--no-wait"),
      })}
      done={() => t("work.begun")}
      onClose={onClose}
    />
  );
}

export function MoveOwner({ volume: { name, owner }, onClose }: Props) {
  const { t } = useSpeech();
  const nodes = useList("/api/v1/nodes");
  const names = nodes.items.filter((node) => node.alive && node.name !== owner).map((node) => node.name);
  return (
    <ActionDialog
      title={t("work.move.title", { name })}
      verb={t("work.move")}
      about={t("work.move.about", { owner: owner ?? t("volume.unused") })}
      initial={{ to: "" }}
      fields={<NamesField name="to" label={t("work.move.to")} names={names} isNeeded />}
      plan={({ to }) => ({
        call: call("post", "/api/v1/volumes/{name}/move", { params: { path: { name } }, body: { to: to ?? "" } }),
        command: amitaCommand("volume", "move", name, "--to", to ?? ""),
      })}
      onClose={onClose}
    />
  );
}

export function ClearReservation({ volume: { name }, onClose }: Props) {
  const { t } = useSpeech();
  const plan = ({ force }: { force: boolean }) => ({
    call: call("delete", "/api/v1/volumes/{name}/reservation", {
      params: { path: { name }, query: force ? { force } : {} },
    }),
    command: amitaCommand("volume", "reservation", name, "--clear", force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={t("work.reservation.title", { name })}
      verb={t("work.reservation.clear")}
      about={t("work.reservation.about")}
      initial={{ force: false }}
      fields={<CheckField name="force" label={t("work.reservation.force")} />}
      typed={name}
      danger
      plan={plan}
      done={({ cleared }) => (cleared ? t("action.done") : t("work.reservation.none"))}
      onClose={onClose}
    />
  );
}
