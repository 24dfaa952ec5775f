// The lines of a chart, by uPlot: a chunk of its own.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useSettings } from "../../app/settings";
import { useSpeech } from "../../i18n";
import type { Unit } from "./charts";
import { formatFigure } from "./figures";

const HEIGHT = 200;
const LINES = {
  light: ["#1554ad", "#ad4e00", "#237804"],
  dark: ["#7db4ff", "#ffb866", "#8fd66b"],
} as const;

interface Props {
  readonly label: string;
  readonly names: readonly string[];
  readonly unit: Unit;
  /** How long the time is that was asked for. */
  readonly seconds: number;
  readonly columns: (number | null)[][];
}

export default function Plot({ label, names, unit, seconds, columns }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef(columns);
  latest.current = columns;
  const { dark } = useSettings();
  const { locale } = useSpeech();
  const key = names.join("\n");
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const ink = dark ? "rgba(255,255,255,0.68)" : "rgba(0,0,0,0.65)";
    const grid = { stroke: dark ? "#33373d" : "#e3e6ea", width: 1 };
    const colours = dark ? LINES.dark : LINES.light;
    const shown = (value: number | null) => (value === null ? "–" : formatFigure(value, unit, locale));
    const made = new uPlot(
      {
        width: Math.max(element.clientWidth, 120),
        height: HEIGHT,
        scales: {
          // One moment alone has no length of its own.
          x: { range: (_, from, to) => (to > from ? [from, to] : [from - seconds, from]) },
          y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
        },
        axes: [
          { stroke: ink, grid, ticks: grid },
          { stroke: ink, grid, ticks: grid, size: 86, values: (_, values) => values.map((value) => shown(value)) },
        ],
        series: [
          {},
          ...key.split("\n").map((name, at) => ({
            label: name,
            stroke: colours[at % colours.length] ?? ink,
            width: 1.5,
            // What lines differ in besides their colour.
            dash: [[], [6, 3], [2, 2]][at % 3] ?? [],
            value: (_: uPlot, value: number | null) => shown(value),
          })),
        ],
      },
      latest.current as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(element.clientWidth, 120), height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [dark, locale, unit, key, seconds]);
  useEffect(() => plot.current?.setData(columns as uPlot.AlignedData), [columns]);
  return <div ref={place} className="plot" role="img" aria-label={label} />;
}
