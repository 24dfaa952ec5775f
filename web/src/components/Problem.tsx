import { Alert } from "antd";
import { asProblem } from "../api/problem";
import type { ProblemError } from "../api/problem";
import { useSpeech } from "../i18n";
import type { Translate } from "../i18n";
import { visible } from "../lib/visible";

function title(problem: ProblemError, t: Translate): string {
  if (problem.code === "unreachable") return t("problem.unreachable");
  if (problem.code === "no-problem") return t("problem.stranger", { status: problem.status });
  return problem.title;
}

/** What the API has said instead of an answer: its code, what is so, and what to do. */
export function Problem({ error }: { error: unknown }) {
  const { t } = useSpeech();
  const problem = asProblem(error);
  const advice = problem.code === "unreachable" ? t("problem.unreachable.advice") : undefined;
  return (
    <Alert
      type="error"
      showIcon
      role="alert"
      className="problem"
      title={visible(title(problem, t))}
      description={
        <>
          <p className="name-whole">{visible(problem.detail)}</p>
          {advice === undefined ? null : <p>{advice}</p>}
          <code>{problem.code}</code>
        </>
      }
    />
  );
}
