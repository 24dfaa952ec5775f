// When the stores will be full, as the nodes' history says it. The command line says the same.
import type { components } from "../api/schema";

type Forecast = components["schemas"]["Forecast"];

/** What is further off is not told. */
const SOON_DAYS = 90;

/** In whole days, one at least. */
export interface FullSoon {
  readonly days: number;
  readonly soonest: number;
  /** Undefined: perhaps never. */
  readonly latest: number | undefined;
  readonly bytesPerDay: number;
}

function whole(days: number): number {
  return Math.max(1, Math.round(days));
}

/** Undefined: it will not be full soon, it is full already, or nobody knows. */
export function fullSoon(forecast: Forecast | null | undefined): FullSoon | undefined {
  if (forecast == null) return undefined;
  const full = forecast.levels.find(({ percent }) => percent === 100);
  const days = full?.days ?? 0;
  if (full === undefined || days <= 0 || days > SOON_DAYS) return undefined;
  return {
    days: whole(days),
    soonest: whole(full.soonest_days ?? days),
    latest: full.latest_days == null ? undefined : whole(full.latest_days),
    bytesPerDay: forecast.bytes_per_day,
  };
}
