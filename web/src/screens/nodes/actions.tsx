// What can be done with nodes and stores.
import { Checkbox, Form, Input, InputNumber } from "antd";
import { useState } from "react";
import { call } from "../../api/call";
import type { Call } from "../../api/call";
import type { components } from "../../api/schema";
import { ifMatch, useSeen, useSeenAll } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import type { Node } from "./NodeList";
import type { Store } from "./StoreList";

type Outlook = components["schemas"]["Outlook"];

/** What the cluster does about a change, in its own sentences. */
function follows(outlook: Outlook | null | undefined, t: Translate): string {
  return outlook == null ? t("action.done") : outlook.sentences.join(" ");
}

function ForceField() {
  const { t } = useSpeech();
  return (
    <Form.Item name="force" valuePropName="checked">
      <Checkbox>{t("node.maintenance.force")}</Checkbox>
    </Form.Item>
  );
}

export function MaintainNode({ node, onClose }: { node: Node; onClose: () => void }) {
  const { t } = useSpeech();
  const maintenance = !node.maintenance;
  const seen = useSeen("/api/v1/nodes/{name}", { name: node.name });
  const plan = ({ force }: { force: boolean }) => ({
    call: call("patch", "/api/v1/nodes/{name}", {
      params: { path: { name: node.name }, query: force ? { force } : {}, header: ifMatch(seen) },
      body: { maintenance },
    }),
    command: amitaCommand("node", "maintenance", maintenance ? "on" : "off", node.name, force ? "--force" : undefined),
  });
  return (
    <ActionDialog
      title={
        maintenance
          ? t("node.maintenance.begin.title", { name: node.name })
          : t("node.maintenance.end.title", { name: node.name })
      }
      verb={maintenance ? t("node.maintenance.begin") : t("node.maintenance.end")}
      about={maintenance ? t("node.maintenance.begin.about") : t("node.maintenance.end.about")}
      initial={{ force: false }}
      fields={maintenance ? <ForceField /> : null}
      seen={seen}
      plan={plan}
      done={({ outlook }) => follows(outlook, t)}
      onClose={onClose}
    />
  );
}

function PlaceFields() {
  const { t } = useSpeech();
  return (
    <>
      <Form.Item name="site" label={t("node.site")}>
        <Input autoComplete="off" spellCheck={false} />
      </Form.Item>
      <Form.Item name="rack" label={t("node.rack")}>
        <Input autoComplete="off" spellCheck={false} />
      </Form.Item>
    </>
  );
}

export function PlaceNode({ node, onClose }: { node: Node; onClose: () => void }) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/nodes/{name}", { name: node.name });
  const plan = ({ site, rack }: { site: string; rack: string }) => ({
    call: call("patch", "/api/v1/nodes/{name}", {
      params: { path: { name: node.name }, header: ifMatch(seen) },
      body: { site, rack },
    }),
    command: amitaCommand("node", "place", node.name, "--site", site, "--rack", rack),
  });
  return (
    <ActionDialog
      title={t("node.place.title", { name: node.name })}
      verb={t("node.place")}
      about={t("node.place.about")}
      initial={{ site: node.site, rack: node.rack }}
      fields={<PlaceFields />}
      seen={seen}
      plan={plan}
      done={({ outlook }) => follows(outlook, t)}
      onClose={onClose}
    />
  );
}

export function DrainStore({ store, onClose }: { store: Store; onClose: () => void }) {
  const { t } = useSpeech();
  const draining = !store.draining;
  const seen = useSeen("/api/v1/stores/{id}", { id: store.id });
  return (
    <ActionDialog
      title={
        draining
          ? t("store.drain.title", { id: store.id, node: store.node })
          : t("store.undrain.title", { id: store.id, node: store.node })
      }
      verb={draining ? t("store.drain") : t("store.undrain")}
      about={draining ? t("store.drain.about") : t("store.undrain.about")}
      initial={{}}
      seen={seen}
      plan={() => ({
        call: call("patch", "/api/v1/stores/{id}", {
          params: { path: { id: store.id }, header: ifMatch(seen) },
          body: { draining },
        }),
        command: amitaCommand("disk", "drain", store.id, draining ? undefined : "--undo"),
      })}
      done={({ outlook }) => follows(outlook, t)}
      onClose={onClose}
    />
  );
}

interface NodeDrain {
  readonly node: string;
  /** Those that are to be drained, or used again: one at least. */
  readonly stores: readonly Store[];
  readonly draining: boolean;
  readonly onClose: () => void;
}

interface Drained {
  readonly id: string;
  readonly outlook: Outlook | null | undefined;
}

/** What the cluster does about each of them. */
function Drains({ drained }: { drained: readonly Drained[] }) {
  const { t } = useSpeech();
  return (
    <ul className="facts">
      {drained.map(({ id, outlook }) => (
        <li key={id}>
          <code>{id}</code>: {follows(outlook, t)}
        </li>
      ))}
    </ul>
  );
}

/**
 * All stores of a node, one after the other, each as it was seen: where one is refused, those before it are drained all the same, and
 * what is done again is done to the others.
 */
export function DrainNode({ node, stores, draining, onClose }: NodeDrain) {
  const { t } = useSpeech();
  const [done, setDone] = useState<readonly Drained[]>([]);
  const left = stores.map(({ id }) => id).filter((id) => done.every((one) => one.id !== id));
  const seen = useSeenAll("/api/v1/stores/{id}", "id", left);
  const calls = left.map((id) => ({
    id,
    call: call("patch", "/api/v1/stores/{id}", {
      params: { path: { id }, header: ifMatch(seen.of(id)) },
      body: { draining },
    }),
  }));
  const last = calls[calls.length - 1]!;
  const before = calls.slice(0, -1);
  const passed = (made: Call, answer: unknown) => {
    const { id } = before.find((one) => one.call === made)!;
    const { outlook } = answer as NonNullable<(typeof last.call)["answer"]>;
    setDone((known) => [...known, { id, outlook }]);
  };
  const words = left.map((id) => amitaCommand("disk", "drain", id, draining ? undefined : "--undo"));
  return (
    <ActionDialog
      title={t(draining ? "node.drain.title" : "node.undrain.title", { name: node })}
      verb={t(draining ? "node.drain" : "node.undrain")}
      about={
        <>
          <p>{t(draining ? "node.drain.about" : "node.undrain.about", { count: stores.length })}</p>
          {done.length === 0 ? null : <p>{t("node.drain.part", { done: done.length, count: stores.length })}</p>}
        </>
      }
      initial={{}}
      seen={seen}
      plan={() => ({ before: before.map((one) => one.call), passed, call: last.call, command: words.join("\n") })}
      shows={({ outlook }) => <Drains drained={[...done, { id: last.id, outlook }]} />}
      onClose={onClose}
    />
  );
}

interface Weight {
  bySize: boolean;
  weight: number;
}

function WeightFields() {
  const { t } = useSpeech();
  const bySize = Form.useWatch("bySize") as boolean | undefined;
  return (
    <>
      <Form.Item name="bySize" valuePropName="checked">
        <Checkbox>{t("store.weigh.by_size")}</Checkbox>
      </Form.Item>
      <Form.Item name="weight" label={t("store.weight")} rules={[{ required: true, message: t("field.needed") }]}>
        <InputNumber min={0} max={4_294_967_295} precision={0} disabled={bySize ?? false} />
      </Form.Item>
    </>
  );
}

export function WeighStore({ store, onClose }: { store: Store; onClose: () => void }) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/stores/{id}", { id: store.id });
  const plan = ({ bySize, weight }: Weight) => ({
    call: call("patch", "/api/v1/stores/{id}", {
      params: { path: { id: store.id }, header: ifMatch(seen) },
      body: { weight: bySize ? null : weight },
    }),
    command: amitaCommand("disk", "weight", store.id, bySize ? "--by-size" : String(weight)),
  });
  return (
    <ActionDialog
      title={t("store.weigh.title", { id: store.id, node: store.node })}
      verb={t("store.weigh")}
      about={t("store.weigh.about")}
      initial={{ bySize: false, weight: store.weight }}
      fields={<WeightFields />}
      seen={seen}
      plan={plan}
      done={({ outlook }) => follows(outlook, t)}
      onClose={onClose}
    />
  );
}
