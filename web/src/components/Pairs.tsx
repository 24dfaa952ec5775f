import type { ReactNode } from "react";

/** Facts of one thing: what, and what it is. */
export function Pairs({ pairs }: { pairs: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="pairs">
      {pairs.map(([what, is]) => (
        <PairRow key={what} what={what} is={is} />
      ))}
    </dl>
  );
}

function PairRow({ what, is }: { what: string; is: ReactNode }) {
  return (
    <>
      <dt>{what}</dt>
      <dd>{is}</dd>
    </>
  );
}
