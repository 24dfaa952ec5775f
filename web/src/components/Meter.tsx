import { percent } from "../lib/format";

/** From this many percent on a meter is odd, and bad: the thresholds that a cluster has where none are set. */
const ODD = 75;
const BAD = 85;

/** How much of something is used, as a bar. */
export function Meter({ label, part, whole }: { label: string; part: number; whole: number }) {
  const used = percent(part, whole);
  const kind = used >= BAD ? "meter meter-bad" : used >= ODD ? "meter meter-odd" : "meter";
  return (
    <div className={kind} role="meter" aria-label={label} aria-valuenow={used} aria-valuemin={0} aria-valuemax={100}>
      <span style={{ width: `${used}%` }} />
    </div>
  );
}
