// How old an answer may be. Pages that stay open share answers at the node that serves them (Cache-Control: max-age, RFC 9111, section
// 5.2.1.1); none of them is older than the last change that this page has made or was told of.

/** Nothing is older than this, in seconds, though nothing was changed. */
export const OLDEST_S = 10;

let changedAt = performance.now();
let isTold = false;

/** Something was changed just now. */
export function noteChange(): void {
  changedAt = performance.now();
}

/** Does the API tell this page what is changed? Where it does not, nothing may be old. */
export function setTold(told: boolean): void {
  if (told !== isTold) noteChange();
  isTold = told;
}

/** How old the answer may be, in seconds; 0: it is to be looked up. */
export function maxAge(): number {
  if (!isTold) return 0;
  return Math.min(OLDEST_S, Math.floor((performance.now() - changedAt) / 1000));
}
