import { Modal } from "antd";
import { useSpeech } from "../i18n";
import { SCREENS } from "./screens";

/** All keys. */
export default function KeysHelp({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const keys = [
    ["/", t("keys.search")],
    ["?", t("keys.help")],
    ["Esc", t("keys.close")],
    ...SCREENS.map(({ key, title }) => [`g ${key}`, t("keys.go", { screen: t(title) })]),
  ];
  return (
    <Modal open title={t("keys.title")} footer={null} onCancel={onClose}>
      <dl className="keys">
        {keys.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
