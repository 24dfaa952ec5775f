import { useState } from "react";
import { useThing } from "../../api/queries";
import { Choice } from "../../components/Choice";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { formatBytes, formatDuration } from "../../lib/format";
import { replaceQuery, usePlace } from "../../lib/router";
import { visible } from "../../lib/visible";
import { formatNanoseconds } from "./figures";
import { MissingNodes } from "./MissingNodes";
import { Waterfall } from "./Waterfall";
import type { Trace } from "./waterfall";

const LIMIT = 50;

const HEADS: readonly Word[] = [
  "performance.took",
  "performance.op",
  "performance.volume",
  "performance.size",
  "performance.node",
  "performance.ended",
  "performance.error",
];

function key({ node, id, ago_ns, offset }: Trace): string {
  return `${node ?? ""} ${id} ${id === 0 ? ago_ns : offset}`;
}

function Row({ trace, isOpen, onOpen }: { trace: Trace; isOpen: boolean; onOpen: () => void }) {
  const { t } = useSpeech();
  const name = `${trace.op} ${formatBytes(trace.length)}, ${visible(trace.volume)}, ${formatNanoseconds(trace.total_ns)}`;
  return (
    <>
      <tr>
        <td>
          <button type="button" className="field" aria-expanded={isOpen} aria-label={name} onClick={onOpen}>
            {formatNanoseconds(trace.total_ns)}
          </button>
        </td>
        <td>{trace.op}</td>
        <td>
          <Name text={trace.volume} />
        </td>
        <td>{formatBytes(trace.length)}</td>
        <td>
          <Name text={trace.node ?? ""} />
        </td>
        <td>{t("performance.ago", { time: formatDuration(trace.ago_ns / 1e9) })}</td>
        <td>{trace.error == null ? "" : <Name text={trace.error} />}</td>
      </tr>
      {isOpen ? (
        <tr>
          <td colSpan={7}>
            <Waterfall trace={trace} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

/** Slow I/Os, or those that were traced; each opens into its waterfall. */
export function SingleIos({ object }: { object: string }) {
  const { t } = useSpeech();
  const slow = usePlace().query.get("ios") !== "traced";
  const volume = object.startsWith("volume/") ? object.slice("volume/".length) : undefined;
  const read = useThing("/api/v1/traces", {}, { query: { slow, volume, limit: LIMIT } });
  const [open, setOpen] = useState("");
  const data = read.data?.data;
  if (read.error !== null) return <Problem error={read.error} />;
  return (
    <>
      <div className="screen-head">
        <Choice
          label={t("performance.ios")}
          value={slow ? "slow" : "traced"}
          options={[
            ["slow", t("performance.slow")],
            ["traced", t("performance.traced")],
          ]}
          onChange={(ios) => replaceQuery({ ios })}
        />
        <span className="faint">{slow ? t("performance.slow.about") : t("performance.traced.about")}</span>
      </div>
      {data === undefined || data.traces.length === 0 ? (
        <p className="faint chart-none">{read.isLoading ? t("frame.loading") : t("performance.no_ios")}</p>
      ) : (
        <div className="number-table number-table-tall" role="region" aria-label={t("performance.ios")} tabIndex={0}>
          <table>
            <thead>
              <tr>
                {HEADS.map((head) => (
                  <th key={head} scope="col">
                    {t(head)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {data.traces.map((trace) => (
                <Row
                  key={key(trace)}
                  trace={trace}
                  isOpen={open === key(trace)}
                  onOpen={() => setOpen(open === key(trace) ? "" : key(trace))}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <MissingNodes missing={data?.missing ?? []} />
    </>
  );
}
