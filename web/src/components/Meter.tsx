import { percent } from "../lib/format";

/** From this many percent on a meter is odd, and bad: the thresholds that a cluster has where none are set. */
const ODD = 75;
const BAD = 85;

interface Props {
  readonly label: string;
  readonly part: number;
  readonly whole: number;
  /** The more the better: work that is done. */
  readonly isFine?: boolean;
}

/** How much of something is used, or done, as a bar. */
export function Meter({ label, part, whole, isFine = false }: Props) {
  const used = percent(part, whole);
  const kind = isFine ? "meter" : used >= BAD ? "meter meter-bad" : used >= ODD ? "meter meter-odd" : "meter";
  return (
    <div className={kind} role="meter" aria-label={label} aria-valuenow={used} aria-valuemin={0} aria-valuemax={100}>
      <span style={{ width: `${used}%` }} />
    </div>
  );
}
