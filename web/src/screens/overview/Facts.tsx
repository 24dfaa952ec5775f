import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import type { components } from "../../api/schema";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";

type Health = components["schemas"]["Health"];

const TONES: Readonly<Record<string, Tone>> = { error: "bad", warning: "odd", info: "plain" };
const WORDS: Readonly<Record<string, Word>> = {
  ok: "health.ok",
  degraded: "health.degraded",
  blocked: "health.blocked",
};

/** What is not as it should be, the worst first, and what to do about it. */
export function Facts({ health }: { health: Health | undefined }) {
  const { t } = useSpeech();
  if (health === undefined) return null;
  const word = WORDS[health.health];
  return (
    <section className="card">
      <h2>{word === undefined ? health.health : t(word)}</h2>
      <ul className="facts">
        {health.facts.map((fact) => (
          <li key={`${fact.name} ${fact.objects.join(" ")}`}>
            <Mark tone={TONES[fact.severity] ?? "plain"}>{fact.name}</Mark>
            <Name text={fact.text} whole />
            {fact.advice === "" ? null : (
              <div className="faint">
                {t("overview.advice")} <Name text={fact.advice} whole />
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
