// The fields that several dialogs have.
import { Form, Input } from "antd";
import { useSpeech } from "../i18n";
import { formatBytes, LEAST_RATE, parseBytes, parseRate } from "../lib/format";
import { parseLabels } from "../lib/labels";
import { TextField } from "./inputs";

/** A block: sizes are multiples of it. */
const BLOCK_BYTES = 4096;

/** A size as a person writes it, `10G`; undefined where a volume cannot have it. */
export function readSize(text: string): number | undefined {
  const bytes = parseBytes(text);
  return bytes !== undefined && bytes > 0 && bytes % BLOCK_BYTES === 0 ? bytes : undefined;
}

function must(fine: (value: string) => boolean, why: string) {
  return {
    validator: (_: unknown, value: string) => (fine(value) ? Promise.resolve() : Promise.reject(new Error(why))),
  };
}

/** The name of something that is to be made. */
export function NameField({ label, autoFocus = true }: { label: string; autoFocus?: boolean }) {
  const { t } = useSpeech();
  return (
    <Form.Item name="name" label={label} rules={[{ required: true, whitespace: true, message: t("field.needed") }]}>
      <Input autoFocus={autoFocus} maxLength={200} autoComplete="off" spellCheck={false} />
    </Form.Item>
  );
}

/** The size of a volume; `above`: it has to be larger than this. */
export function SizeField({ above = 0 }: { above?: number }) {
  const { t } = useSpeech();
  const fits = (text: string) => (readSize(text) ?? 0) > above;
  const why = above === 0 ? t("field.size.wrong") : t("field.size.larger", { size: formatBytes(above) });
  return (
    <Form.Item name="size" label={t("field.size")} extra={t("field.size.about")} rules={[must(fits, why)]}>
      <Input autoComplete="off" spellCheck={false} />
    </Form.Item>
  );
}

/** Bytes a second at most; empty: as many as can be. `least`: the fewest. */
export function RateField({ label, least = LEAST_RATE }: { label: string; least?: number }) {
  const { t } = useSpeech();
  const fits = (text: string) => parseRate(text, least) !== undefined;
  return <TextField name="rate" label={label} fits={fits} why={t("field.rate.wrong", { least: formatBytes(least) })} />;
}

export function LabelsField() {
  const { t } = useSpeech();
  const fine = (text: string) => parseLabels(text) !== undefined;
  return (
    <Form.Item
      name="labels"
      label={t("field.labels")}
      extra={t("field.labels.about")}
      rules={[must(fine, t("field.labels.wrong"))]}
    >
      <Input.TextArea rows={3} spellCheck={false} />
    </Form.Item>
  );
}
