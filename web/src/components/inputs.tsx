// The plain fields of dialogs: a text, a number, a mark, one or several names.
import { Checkbox, Form, Input, InputNumber, Select } from "antd";
import type { NamePath } from "antd/es/form/interface";
import { useId } from "react";
import { useSpeech } from "../i18n";
import { visible } from "../lib/visible";

interface Field {
  readonly name: NamePath;
  readonly label: string;
  /** What more is to be known of it. */
  readonly about?: string | undefined;
}

interface TextFieldProps extends Field {
  readonly autoFocus?: boolean;
  readonly isNeeded?: boolean;
  /** Whether a text may be given, and what is said where it may not. */
  readonly fits?: (text: string) => boolean;
  readonly why?: string;
  /** What the browser proposes. */
  readonly among?: readonly string[];
}

export function TextField({ name, label, about, autoFocus, isNeeded, fits, why = "", among }: TextFieldProps) {
  const { t } = useSpeech();
  const list = useId();
  const check = (_: unknown, text: string) => {
    if (isNeeded && (text ?? "").trim() === "") return Promise.reject(new Error(t("field.needed")));
    return fits === undefined || fits(text ?? "") ? Promise.resolve() : Promise.reject(new Error(why));
  };
  return (
    <>
      <Form.Item name={name} label={label} extra={about} rules={[{ validator: check }]}>
        <Input
          autoFocus={autoFocus ?? false}
          maxLength={1000}
          autoComplete="off"
          spellCheck={false}
          {...(among === undefined ? {} : { list })}
        />
      </Form.Item>
      {among === undefined ? null : (
        <datalist id={list}>
          {among.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </>
  );
}

export function NumberField({ name, label, about, min, max }: Field & { min: number; max: number }) {
  const { t } = useSpeech();
  return (
    <Form.Item name={name} label={label} extra={about} rules={[{ required: true, message: t("field.needed") }]}>
      <InputNumber min={min} max={max} precision={0} />
    </Form.Item>
  );
}

export function CheckField({ name, label, about }: Field) {
  return (
    <Form.Item name={name} valuePropName="checked" extra={about}>
      <Checkbox>{label}</Checkbox>
    </Form.Item>
  );
}

/** One of a few, by the browser's own list. */
export function OptionField({
  name,
  label,
  about,
  options,
}: Field & { options: readonly (readonly [string, string])[] }) {
  return (
    <Form.Item name={name} label={label} extra={about}>
      <select className="field">
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </Form.Item>
  );
}

interface NamesFieldProps extends Field {
  readonly names: readonly string[];
  readonly isNeeded?: boolean;
  /** Several may be chosen; else one. */
  readonly isMany?: boolean;
  /** Names may be typed that are not among them. */
  readonly isOpen?: boolean;
}

/** Names of what there is; hundreds of them do no harm. */
export function NamesField({ name, label, about, names, isNeeded, isMany, isOpen }: NamesFieldProps) {
  const { t } = useSpeech();
  const options = names.map((one) => ({ value: one, label: visible(one) }));
  const mode = isOpen ? "tags" : isMany ? "multiple" : undefined;
  return (
    <Form.Item
      name={name}
      label={label}
      extra={about}
      rules={isNeeded ? [{ required: true, message: t("field.needed") }] : []}
    >
      <Select
        {...(mode === undefined ? {} : { mode })}
        options={options}
        showSearch
        // Else the key that leaves the field takes what stands first in its list; what was typed it may take.
        defaultActiveFirstOption={isOpen ?? false}
        getPopupContainer={(field) => field.parentElement ?? document.body}
      />
    </Form.Item>
  );
}
