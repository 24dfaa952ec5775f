import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { placeOf } from "../../lib/inspection";
import { markOf } from "../../lib/known";

type Schemas = components["schemas"];

/** It costs what a status costs, and nodes tell of their machines seldom. */
const EVERY_MS = 60_000;

export function useInspection() {
  const { data, isLoading, error } = useThing("/api/v1/inspect", {}, { everyMs: EVERY_MS });
  return { found: data?.data, isLoading, error };
}

export const SEVERITIES: Readonly<Record<Schemas["FindingSeverity"], readonly [Tone, Word]>> = {
  critical: ["bad", "inspection.critical"],
  warning: ["odd", "inspection.warning"],
  notice: ["plain", "inspection.notice"],
};

export function SeverityMark({ severity }: { severity: Schemas["FindingSeverity"] }) {
  const { t } = useSpeech();
  const [tone, text] = markOf(SEVERITIES, severity, t);
  return <Mark tone={tone}>{text}</Mark>;
}

/** Where it is: a link where there is a screen of that. */
export function Place({ place }: { place: Schemas["InspectedPlace"] }) {
  const href = placeOf(place);
  const text = place.name === "" ? place.kind : `${place.kind} ${place.name}`;
  return href === undefined ? (
    <Name text={text} />
  ) : (
    <a href={href}>
      <Name text={text} />
    </a>
  );
}
