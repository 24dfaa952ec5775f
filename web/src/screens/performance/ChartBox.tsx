import { lazy, Suspense, useMemo, useState } from "react";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatTime } from "../../lib/format";
import { align } from "./charts";
import type { Chart } from "./charts";
import { formatFigure } from "./figures";
import { MissingNodes } from "./MissingNodes";
import { NumberTable } from "./NumberTable";
import { useFigures } from "./read";

const Plot = lazy(() => import("./Plot"));

interface Props {
  readonly chart: Chart;
  readonly object: string;
  readonly seconds: number;
  readonly everyMs?: number;
}

/** A chart of an object, as lines or as a table. */
export function ChartBox({ chart, object, seconds, everyMs }: Props) {
  const { t, locale } = useSpeech();
  const [asTable, setAsTable] = useState(false);
  const metrics = useMemo(() => [...new Set(chart.series.map(({ metric }) => metric))], [chart]);
  const { answers, isLoading, error } = useFigures(object, metrics, seconds, everyMs);
  const columns = useMemo(() => align(chart, answers), [chart, answers]);
  const times = (columns[0] ?? []) as number[];
  const names = chart.series.map(({ word }) => t(word));
  const last = chart.series.map((_, at) => columns[at + 1]?.findLast((value) => value !== null) ?? null);
  const figures = last.map(
    (value, at) => `${names[at]}: ${value === null ? "–" : formatFigure(value, chart.unit, locale)}`,
  );
  const summary = t("performance.chart", { title: t(chart.title), object, figures: figures.join(", ") });
  return (
    <section className="chart" aria-label={t(chart.title)}>
      <div className="chart-head">
        <h2>{t(chart.title)}</h2>
        <button type="button" className="field" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {t("performance.table")}
        </button>
      </div>
      {error !== null ? (
        <Problem error={error} />
      ) : times.length === 0 ? (
        <p className="faint chart-none">{isLoading ? t("frame.loading") : t("performance.nothing")}</p>
      ) : asTable ? (
        <NumberTable
          label={t(chart.title)}
          heads={[t("performance.time"), ...names]}
          rows={times
            .map((at, row) => [
              formatTime(at * 1000, locale),
              ...chart.series.map((_, series) => {
                const value = columns[series + 1]?.[row] ?? null;
                return value === null ? "–" : formatFigure(value, chart.unit, locale);
              }),
            ])
            .reverse()}
        />
      ) : (
        <Suspense fallback={<p className="faint chart-none">{t("frame.loading")}</p>}>
          <Plot label={summary} names={names} unit={chart.unit} seconds={seconds} columns={columns} />
        </Suspense>
      )}
      <MissingNodes missing={[...answers.values()][0]?.missing ?? []} />
    </section>
  );
}
