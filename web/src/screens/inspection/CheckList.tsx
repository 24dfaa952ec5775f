import { Spin } from "antd";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatCount } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { useInspection } from "./parts";

/** Every check, with how much it has looked at: one that has looked at nothing says nothing. */
export function CheckList() {
  const { t, locale } = useSpeech();
  const { found, error } = useInspection();
  const count = (value: number) => formatCount(value, locale);
  return (
    <>
      <div className="screen-head">
        <h1>{t("inspection.checks")}</h1>
      </div>
      {error === null ? null : <Problem error={error} />}
      {found === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {found === undefined ? null : (
        <section className="card table-box" tabIndex={0} aria-label={t("inspection.checks")}>
          <table className="figures">
            <thead>
              <tr>
                <th scope="col">{t("inspection.check")}</th>
                <th scope="col">{t("inspection.looked_at")}</th>
                <th scope="col">{t("inspection.not_looked_at")}</th>
                <th scope="col">{t("inspection.found")}</th>
              </tr>
            </thead>
            <tbody>
              {found.checks.map(({ check, title, looked_at, not_looked_at, found }) => (
                <tr key={check}>
                  <th scope="row">
                    <a href={placeHref(["inspection"], { q: check })}>
                      <Name text={title} />
                    </a>
                  </th>
                  <td>{count(looked_at)}</td>
                  <td>{count(not_looked_at)}</td>
                  <td>{count(found)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}
