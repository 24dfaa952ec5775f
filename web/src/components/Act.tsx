import { Button } from "antd";
import type { ButtonProps } from "antd";
import type { ReactNode } from "react";
import { useMay } from "../api/self";
import { useSpeech } from "../i18n";
import { useDialog } from "./useDialog";

interface Props {
  /** The action, as the audit log names it: whoever may not do it finds the button off. */
  readonly may: string;
  readonly label: string;
  readonly dialog: (close: () => void) => ReactNode;
  readonly danger?: boolean;
  readonly type?: ButtonProps["type"];
  readonly size?: ButtonProps["size"];
}

/** A button that opens an action's dialog. */
export function Act({ may, label, dialog, danger = false, type = "default", size = "middle" }: Props) {
  const { t } = useSpeech();
  const isAllowed = useMay(may);
  const { dialog: shown, show } = useDialog();
  return (
    <>
      <Button
        type={type}
        size={size}
        danger={danger}
        disabled={!isAllowed}
        title={isAllowed ? undefined : t("action.not_allowed", { action: may })}
        onClick={() => show(dialog)}
      >
        {label}
      </Button>
      {shown}
    </>
  );
}
