import { useSpeech } from "../../i18n";
import { visible } from "../../lib/visible";
import { formatNanoseconds } from "./figures";
import { waterfall } from "./waterfall";
import type { Trace } from "./waterfall";

/** A table of stages, whose last column draws when each was. */
export function Waterfall({ trace }: { trace: Trace }) {
  const { t } = useSpeech();
  const total = Math.max(trace.total_ns, 1);
  const share = (ns: number) => `${Math.min(100, (100 * ns) / total)}%`;
  return (
    <div className="number-table" role="region" aria-label={t("performance.waterfall")} tabIndex={0}>
      <table className="waterfall">
        <thead>
          <tr>
            <th scope="col">{t("performance.stage")}</th>
            <th scope="col">{t("performance.took")}</th>
            <th scope="col">{t("performance.when")}</th>
          </tr>
        </thead>
        <tbody>
          {waterfall(trace).map(({ depth, name, from, took }, at) => (
            <tr key={`${at} ${name}`}>
              <td className={`waterfall-${depth}`}>{visible(name)}</td>
              <td>{took === undefined ? t("performance.silent") : formatNanoseconds(took)}</td>
              <td className="waterfall-line">
                <span
                  className={`waterfall-bar waterfall-bar-${depth}`}
                  style={{ marginInlineStart: share(from), width: share(took ?? 0) }}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
