// Keys: `g` and a letter go to a screen, `/` searches in it, `?` shows all of them.
import { useEffect } from "react";
import { goTo } from "../lib/router";
import { SCREENS } from "./screens";

/** So long the second key of `g v` may take. */
const SECOND_KEY_MS = 1_500;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

function isDialogOpen(): boolean {
  return document.querySelector(".ant-modal-wrap:not([style*='display: none'])") !== null;
}

/** Puts the cursor into the screen's search field, where there is one. */
function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>("main [type=search]");
  field?.focus();
  return field !== null;
}

export function useKeys(showHelp: () => void): void {
  useEffect(() => {
    let wentAt = 0;
    const pressed = (event: KeyboardEvent) => {
      const isOther = event.ctrlKey || event.metaKey || event.altKey;
      if (isOther || isTyping(event.target) || isDialogOpen()) return;
      const isSecond = event.timeStamp - wentAt < SECOND_KEY_MS;
      wentAt = 0;
      if (isSecond) {
        const screen = SCREENS.find(({ key }) => key === event.key);
        if (screen !== undefined) goTo([screen.id]);
      } else if (event.key === "g") wentAt = event.timeStamp;
      else if (event.key === "?") showHelp();
      else if (event.key !== "/" || !focusSearch()) return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [showHelp]);
}
