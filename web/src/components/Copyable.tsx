import { CheckOutlined, CopyOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useState } from "react";
import { useSpeech } from "../i18n";

/** Where the clipboard may not be used (a page over plain HTTP), the text is selected, so that a key copies it. */
async function copy(text: string, element: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (element !== null) window.getSelection()?.selectAllChildren(element);
    return false;
  }
}

/** A command that can be copied. */
export function Copyable({ label, text }: { label: string; text: string }) {
  const { t } = useSpeech();
  const [copied, setCopied] = useState("");
  const [element, setElement] = useState<HTMLElement | null>(null);
  const isCopied = copied === text;
  return (
    <div className="copyable">
      <span className="copyable-label">{label}</span>
      <pre ref={setElement} tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <Button
        size="small"
        icon={isCopied ? <CheckOutlined /> : <CopyOutlined />}
        aria-label={t("action.copy", { what: label })}
        onClick={() => void copy(text, element).then((done) => done && setCopied(text))}
      />
    </div>
  );
}
