import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import { lossText, matrixOf, microseconds } from "../../lib/links";
import type { BadLink } from "../../lib/links";

/** A column that is bad is a node that is not reached, a row one that does not reach the others. */
export function LinkMatrix({ links }: { links: readonly BadLink[] }) {
  const { t } = useSpeech();
  const matrix = matrixOf(links);
  if (matrix === undefined) return null;
  return (
    <section className="card table-box" tabIndex={0} aria-label={t("link.matrix")}>
      <h2>{t("link.matrix")}</h2>
      <p className="faint">{t("link.matrix.about")}</p>
      <table className="figures matrix">
        <thead>
          <tr>
            <th scope="col">{t("link.matrix.corner")}</th>
            {matrix.to.map((name) => (
              <th key={name} scope="col">
                <Name text={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {matrix.from.map((from) => (
            <tr key={from}>
              <th scope="row">
                <Name text={from} />
              </th>
              {matrix.to.map((to) => (
                <Cell key={to} isSelf={from === to} link={matrix.find(from, to)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Cell({ isSelf, link }: { isSelf: boolean; link: BadLink | undefined }) {
  const { t } = useSpeech();
  if (link === undefined) return <td>{isSelf ? "–" : ""}</td>;
  const { trouble, loss_ppm, round_trip_us } = link;
  if (trouble === "cut") return <td className="mark-bad">{t("link.cut")}</td>;
  return <td className="mark-odd">{trouble === "late" ? microseconds(round_trip_us) : lossText(loss_ppm)}</td>;
}
