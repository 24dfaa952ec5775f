import type { ReactNode } from "react";
import { useSpeech } from "../../i18n";

export interface Setting {
  readonly name: string;
  readonly value: ReactNode;
  readonly help: string;
}

/** Settings with their values, and what each means. */
export function SettingTable({ label, settings }: { label: string; settings: readonly Setting[] }) {
  const { t } = useSpeech();
  return (
    <table className="settings" aria-label={label}>
      <thead>
        <tr>
          <th scope="col">{t("setting.name")}</th>
          <th scope="col">{t("setting.value")}</th>
          <th scope="col">{t("setting.help")}</th>
        </tr>
      </thead>
      <tbody>
        {settings.map(({ name, value, help }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{value}</td>
            <td className="faint">{help}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
