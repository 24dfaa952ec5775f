import { useEffect, useRef, useState } from "react";
import { useSettings } from "../../app/settings";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatCount, formatTime } from "../../lib/format";
import { formatNanoseconds } from "./figures";
import { fieldAt, most, shade } from "./heat";
import { MissingNodes } from "./MissingNodes";
import { NumberTable } from "./NumberTable";
import { useHeat } from "./read";

const HEIGHT = 320;

function usePicture(data: ReturnType<typeof useHeat>["data"], dark: boolean) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    const paper = element?.getContext("2d");
    if (!element || !paper || data === undefined) return;
    const draw = () => {
      const scale = window.devicePixelRatio;
      element.width = Math.round(element.clientWidth * scale);
      element.height = Math.round(HEIGHT * scale);
      const [rows, span, top] = [data.bounds_ns.length - 1, data.to - data.from, most(data)];
      const tall = element.height / Math.max(rows, 1);
      const wide = (element.width * data.step_s) / Math.max(span, 1);
      for (const { at, counts } of data.columns) {
        const left = (element.width * (at - data.from)) / span;
        counts.forEach((count, row) => {
          if (count === 0) return;
          const strength = shade(count, top);
          paper.fillStyle = dark ? `rgba(125,180,255,${strength})` : `rgba(21,84,173,${strength})`;
          paper.fillRect(left, (rows - 1 - row) * tall, Math.max(wide, 1), Math.max(tall, 1));
        });
      }
    };
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(element);
    return () => watch.disconnect();
  }, [data, dark]);
  return canvas;
}

/** How many I/Os took how long when. */
export function HeatMap({ object, seconds }: { object: string; seconds: number }) {
  const { t, locale } = useSpeech();
  const { dark } = useSettings();
  const { data, isLoading, error } = useHeat(object, seconds);
  const [asTable, setAsTable] = useState(false);
  const [pointed, setPointed] = useState("");
  const canvas = usePicture(asTable ? undefined : data, dark);
  if (error !== null) return <Problem error={error} />;
  if (data === undefined || data.columns.length === 0) {
    return <p className="faint chart-none">{isLoading ? t("frame.loading") : t("performance.nothing")}</p>;
  }
  const bounds = data.bounds_ns;
  const band = (row: number) => `${formatNanoseconds(bounds[row] ?? 0)} – ${formatNanoseconds(bounds[row + 1] ?? 0)}`;
  const say = (column: number, row: number) =>
    t("performance.heat.field", {
      time: formatTime((data.columns[column]?.at ?? 0) * 1000, locale),
      band: band(row),
      count: formatCount(data.columns[column]?.counts[row] ?? 0, locale),
    });
  const rows = data.columns.flatMap(({ at, counts }) =>
    counts.flatMap((count, row) =>
      count === 0 ? [] : [[formatTime(at * 1000, locale), band(row), formatCount(count, locale)]],
    ),
  );
  return (
    <section className="chart" aria-label={t("performance.heat")}>
      <div className="chart-head">
        <h2>{t("performance.heat")}</h2>
        <button type="button" className="field" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {t("performance.table")}
        </button>
      </div>
      {asTable ? (
        <NumberTable
          label={t("performance.heat")}
          heads={[t("performance.time"), t("performance.latency"), t("performance.count")]}
          rows={rows.reverse().slice(0, 2_000)}
        />
      ) : (
        <div className="heat">
          <div className="heat-bounds" aria-hidden="true">
            <span>{formatNanoseconds(bounds.at(-1) ?? 0)}</span>
            <span>{formatNanoseconds(bounds[0] ?? 0)}</span>
          </div>
          <canvas
            ref={canvas}
            className="heat-picture"
            role="img"
            aria-label={t("performance.heat.about", { object })}
            onMouseLeave={() => setPointed("")}
            onMouseMove={({ nativeEvent, currentTarget }) => {
              const { offsetX, offsetY } = nativeEvent;
              const [x, y] = [offsetX / currentTarget.clientWidth, offsetY / currentTarget.clientHeight];
              const field = fieldAt(data, x, y, data.from, data.to, data.step_s);
              setPointed(field === undefined ? "" : say(field.column, field.row));
            }}
          />
          <p className="faint heat-field">{pointed}</p>
        </div>
      )}
      <MissingNodes missing={data.missing} />
    </section>
  );
}
