// One I/O's time as bars: its stages one after the other, and within that of the stores what each store did.
import type { components } from "../../api/schema";

export type Trace = components["schemas"]["Trace"];

export interface Bar {
  readonly depth: number;
  readonly name: string;
  /** Since the I/O came in, in nanoseconds. */
  readonly from: number;
  /** How long, in nanoseconds; undefined: it never answered. */
  readonly took: number | undefined;
}

/** Nobody knows how the way there and the way back share it: for the eye, equally. Data and log are written side by side. */
function stages(leg: Trace["stores"][number]): Bar[] {
  const bars: Bar[] = [];
  let from = leg.sent_ns + leg.way_ns / 2;
  let beside = 0;
  for (const { stage, ns } of leg.stages) {
    if (stage === "flush" || stage === "answer") {
      from += beside;
      beside = 0;
    }
    bars.push({ depth: 2, name: stage, from, took: ns });
    if (stage === "data" || stage === "log") beside = Math.max(beside, ns);
    else from += ns;
  }
  return bars;
}

export function waterfall(trace: Trace): Bar[] {
  const bars: Bar[] = [];
  let from = 0;
  for (const { stage, ns } of trace.stages) {
    bars.push({ depth: 0, name: stage, from, took: ns });
    if (stage === "stores") {
      for (const leg of trace.stores) {
        const took = leg.answered_ns == null ? undefined : Math.max(0, leg.answered_ns - leg.sent_ns);
        bars.push({ depth: 1, name: leg.store.slice(0, 8), from: leg.sent_ns, took });
        bars.push(...stages(leg));
      }
    }
    from += ns;
  }
  return bars;
}
