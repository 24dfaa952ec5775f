import { visible } from "../lib/visible";

/** A name, or any text of a stranger: on one line, cut where there is no room, and read in its own direction only. */
export function Name({ text, whole = false }: { text: string; whole?: boolean }) {
  const shown = visible(text);
  return (
    <bdi className={whole ? "name name-whole" : "name"} title={whole ? undefined : shown}>
      {shown}
    </bdi>
  );
}
