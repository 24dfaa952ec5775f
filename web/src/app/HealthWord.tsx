import { Mark } from "../components/Mark";
import type { Tone } from "../components/Mark";
import { asProblem } from "../api/problem";
import type { components } from "../api/schema";
import { useSpeech } from "../i18n";
import type { Word } from "../i18n";
import { placeHref } from "../lib/router";
import { visible } from "../lib/visible";

type Health = components["schemas"]["Health"];

const TONES: Readonly<Record<string, Tone>> = { ok: "good", degraded: "odd", blocked: "bad" };
const SENTENCES: Readonly<Record<string, Word>> = {
  ok: "health.ok",
  degraded: "health.degraded",
  blocked: "health.blocked",
};

/** Is the cluster well? One sentence, in the header of every screen. */
export function HealthWord({ health, error }: { health: Health | undefined; error: Error | null }) {
  const { t } = useSpeech();
  if (error !== null) {
    return (
      <p className="health" role="status">
        <Mark tone="bad">{t("health.unknown")}</Mark> {visible(asProblem(error).detail)}
      </p>
    );
  }
  if (health === undefined) return <p className="health" role="status" />;
  const sentence = SENTENCES[health.health];
  const worst = health.facts[0];
  return (
    <p className="health" role="status">
      <Mark tone={TONES[health.health] ?? "plain"}>{health.health}</Mark>
      <a href={placeHref(["overview"])}>
        {worst === undefined && sentence !== undefined ? t(sentence) : visible(worst?.text ?? "")}
      </a>
      {health.facts.length > 1 ? <span> {t("health.more", { count: health.facts.length - 1 })}</span> : null}
    </p>
  );
}
