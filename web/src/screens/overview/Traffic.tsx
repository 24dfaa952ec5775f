import { ChartBox } from "../performance/ChartBox";
import { BYTES, IOPS, LATENCY } from "../performance/charts";
import "../performance/performance.css";

const HOUR_S = 3_600;
/** All nodes are asked for each figure: seldom, for this screen stays open. */
const EVERY_MS = 30_000;

/** What clients do, and how long it takes: the last hour of the whole cluster. */
export function Traffic() {
  return (
    <div className="charts charts-three">
      {[IOPS, BYTES, LATENCY].map((chart) => (
        <ChartBox key={chart.id} chart={chart} object="cluster" seconds={HOUR_S} everyMs={EVERY_MS} />
      ))}
    </div>
  );
}
