import type { components } from "../../api/schema";
import { useSpeech } from "../../i18n";
import { visible } from "../../lib/visible";

type Missing = components["schemas"]["MissingNode"];

/** Nodes whose figures are not in what is shown, and why. */
export function MissingNodes({ missing }: { missing: readonly Missing[] }) {
  const { t } = useSpeech();
  if (missing.length === 0) return null;
  return (
    <details className="missing">
      <summary>{t("performance.missing", { count: missing.length })}</summary>
      <ul>
        {missing.map(({ node, why }) => (
          <li key={node}>{visible(`${node}: ${why}`)}</li>
        ))}
      </ul>
    </details>
  );
}
