// What becomes of disks and nodes that go: one takes another's place, or it is taken out of the records.
import { Form } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { formatBytes } from "../../lib/format";
import type { Node } from "./NodeList";
import type { Store } from "./StoreList";

interface Props {
  readonly store: Store;
  readonly onClose: () => void;
}

/** Which store it is, in words: its number says nothing to a person. */
function NewStoreField({ not }: { not: Store }) {
  const { t } = useSpeech();
  const stores = useList("/api/v1/stores");
  const others = stores.items.filter(({ id, serves, draining }) => id !== not.id && serves && !draining);
  return (
    <Form.Item name="by" label={t("disk.by")} rules={[{ required: true, message: t("field.needed") }]}>
      <select className="field">
        <option value="">{t("none")}</option>
        {others.map(({ id, node, path, size_bytes }) => (
          <option key={id} value={id}>
            {`${node} ${path} (${formatBytes(size_bytes)}, ${id.slice(0, 8)})`}
          </option>
        ))}
      </select>
    </Form.Item>
  );
}

export function ReplaceStore({ store, onClose }: Props) {
  const { t } = useSpeech();
  const { id, node, path } = store;
  return (
    <ActionDialog
      title={t("disk.replace.title", { node, path })}
      verb={t("disk.replace")}
      about={t("disk.replace.about")}
      initial={{ by: "" }}
      fields={<NewStoreField not={store} />}
      plan={({ by }) => ({
        call: call("post", "/api/v1/stores/{id}/replace", { params: { path: { id } }, body: { by } }),
        command: amitaCommand("disk", "replace", id, by),
      })}
      done={({ groups, others }) => t("disk.replace.done", { groups, others })}
      onClose={onClose}
    />
  );
}

export function ClassifyStore({ store, onClose }: Props) {
  const { t } = useSpeech();
  const { id, node, path } = store;
  const seen = useSeen("/api/v1/stores/{id}", { id });
  const plan = ({ class: given }: { class: string }) => {
    const name = given.trim();
    return {
      call: call("patch", "/api/v1/stores/{id}", {
        params: { path: { id }, header: ifMatch(seen) },
        body: { class: name === "" ? null : name },
      }),
      command: amitaCommand("disk", "class", id, name === "" ? "--none" : name),
    };
  };
  return (
    <ActionDialog
      title={t("disk.class.title", { node, path })}
      verb={t("disk.class")}
      about={t("disk.class.about")}
      initial={{ class: store.class ?? "" }}
      fields={<TextField name="class" label={t("store.class")} about={t("disk.class.none")} autoFocus />}
      seen={seen}
      plan={plan}
      done={({ outlook }) => outlook?.sentences.join(" ") ?? t("action.done")}
      onClose={onClose}
    />
  );
}

export function ForgetStore({ store: { id, node, path }, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/stores/{id}", { id });
  return (
    <ActionDialog
      title={t("disk.forget.title", { node, path })}
      verb={t("disk.forget")}
      about={t("disk.forget.about", { id })}
      initial={{}}
      typed={id.slice(0, 8)}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/stores/{id}", {
          params: { path: { id }, header: ifMatch(seen) },
        }),
        command: amitaCommand("disk", "forget", id),
      })}
      onClose={onClose}
    />
  );
}

/** Where the store itself is lost, a copy of it that is older may serve: what was written since is missing on it. */
export function AdoptStore({ store: { id, node, path }, onClose }: Props) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("disk.adopt.title", { node, path })}
      verb={t("disk.adopt")}
      about={t("disk.adopt.about", { id })}
      initial={{}}
      typed={id.slice(0, 8)}
      danger
      plan={() => ({
        call: call("post", "/api/v1/stores/{id}/adopt", { params: { path: { id } } }),
        command: amitaCommand("disk", "adopt", id),
      })}
      onClose={onClose}
    />
  );
}

export function RemoveNode({ node: { name }, onClose }: { node: Node; onClose: () => void }) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/nodes/{name}", { name });
  const stores = useList("/api/v1/stores", {}, { node: name });
  return (
    <ActionDialog
      title={t("node.remove.title", { name })}
      verb={t("node.remove")}
      about={t("node.remove.about", { stores: stores.items.length })}
      initial={{}}
      typed={name}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/nodes/{name}", {
          params: { path: { name }, header: ifMatch(seen) },
        }),
        command: amitaCommand("node", "remove", name),
      })}
      onClose={onClose}
    />
  );
}
