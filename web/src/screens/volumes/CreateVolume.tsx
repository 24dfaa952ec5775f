import { Form, Select } from "antd";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { LabelsField, NameField, readSize, SizeField } from "../../components/fields";
import { CheckField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesArgument } from "../../lib/format";
import { parseLabels } from "../../lib/labels";

interface Values {
  name: string;
  pool?: string;
  size: string;
  labels: string;
  encrypted: boolean;
}

function command({ name, pool = "", size, labels, encrypted }: Values): string {
  const options = ["--pool", pool, "--size", bytesArgument(readSize(size) ?? 0), encrypted ? "--encrypted" : undefined];
  const make = amitaCommand("volume", "create", name, ...options);
  const pairs = Object.entries(parseLabels(labels) ?? {}).map(([key, value]) => `${key}=${value}`);
  return pairs.length === 0 ? make : `${make}\n${amitaCommand("volume", "label", name, ...pairs)}`;
}

function plan(values: Values) {
  const { name, pool = "", size, labels, encrypted } = values;
  const body = { name, pool, size_bytes: readSize(size) ?? 0, labels: { ...parseLabels(labels) }, encrypted };
  return { call: call("post", "/api/v1/volumes", { body }), command: command(values) };
}

function PoolField() {
  const { t } = useSpeech();
  const pools = useList("/api/v1/pools");
  return (
    <Form.Item name="pool" label={t("volume.pool")} rules={[{ required: true, message: t("field.needed") }]}>
      <Select
        loading={pools.isLoading}
        options={pools.items.map(({ name }) => ({ value: name, label: name }))}
        showSearch
      />
    </Form.Item>
  );
}

export function CreateVolume({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const initial: Values = { name: "", size: "10G", labels: "", encrypted: false };
  const fields = (
    <>
      <NameField label={t("volume.name")} />
      <PoolField />
      <SizeField />
      <LabelsField />
      <CheckField name="encrypted" label={t("volume.encrypt")} about={t("volume.encrypt.about")} />
    </>
  );
  return (
    <ActionDialog
      title={t("volume.create")}
      verb={t("action.create")}
      about={t("volume.create.about")}
      initial={initial}
      fields={fields}
      plan={plan}
      onClose={onClose}
    />
  );
}
