import { describe, expect, it } from "vitest";
import type { components } from "../src/api/schema";
import { fullSoon } from "../src/lib/forecast";

type Reach = components["schemas"]["ForecastLevel"];

function forecast(full: Partial<Reach>): components["schemas"]["Forecast"] {
  const level = (percent: number, reach: Partial<Reach>): Reach => ({
    percent,
    days: null,
    soonest_days: null,
    latest_days: null,
    ...reach,
  });
  const bytes = { used_bytes: 60, capacity_bytes: 100, bytes_per_day: 2, bytes_per_day_low: 1, bytes_per_day_high: 3 };
  return { ...bytes, span_s: 86_400, levels: [level(85, { days: 1 }), level(95, { days: 2 }), level(100, full)] };
}

describe("a forecast", () => {
  it("is told where all is full within ninety days", () => {
    const found = fullSoon(forecast({ days: 40.4, soonest_days: 35.6, latest_days: 50.2 }));
    expect(found).toEqual({ days: 40, soonest: 36, latest: 50, bytesPerDay: 2 });
    expect(fullSoon(forecast({ days: 90, soonest_days: 90, latest_days: 90 }))?.days).toBe(90);
  });
  it("says where it may never be so, and no less than a day", () => {
    const found = fullSoon(forecast({ days: 0.2, soonest_days: 0.1, latest_days: null }));
    expect(found).toEqual({ days: 1, soonest: 1, latest: undefined, bytesPerDay: 2 });
  });
  it.each([
    ["nobody knows", null],
    ["it is not there yet", undefined],
    ["it is far off", forecast({ days: 90.1, soonest_days: 80, latest_days: 100 })],
    ["it does not grow", forecast({})],
    ["it is full already", forecast({ days: 0, soonest_days: 0, latest_days: 0 })],
  ])("says nothing where %s", (_, found) => expect(fullSoon(found)).toBeUndefined());
});
