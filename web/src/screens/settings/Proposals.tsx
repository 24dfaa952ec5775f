// What is done, or would be done, about what is sick at this moment: the cluster's own sentences.
import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Name } from "../../components/Name";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";

type Fact = components["schemas"]["Fact"];

/** So many of the newest decisions are shown. */
const NEWEST = 5;
/** What the coordinator tells of networks: found and what follows, isolated, well again. */
const NETWORK_EVENTS = ["network-sick", "node-isolated", "network-well"];

/** What is so at this moment of the kinds that have these names. */
function useFacts(names: readonly string[]): { facts: readonly Fact[] | undefined; error: Error | null } {
  const { data, error } = useThing("/api/v1/health");
  return { facts: data?.data.facts.filter(({ name }) => names.includes(name)), error };
}

function FactList({ label, names, none }: { label: string; names: readonly string[]; none: string }) {
  const { t } = useSpeech();
  const { facts, error } = useFacts(names);
  if (error !== null) return <Problem error={error} />;
  if (facts === undefined) return null;
  if (facts.length === 0) return <p className="faint">{none}</p>;
  return (
    <>
      <h3>{label}</h3>
      <ul className="facts">
        {facts.map(({ name, objects, text, advice }) => (
          <li key={`${name} ${objects.join(" ")}`}>
            <Name text={text} whole />
            {advice === "" ? null : (
              <div className="faint">
                {t("overview.advice")} <Name text={advice} whole />
              </div>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

/** What was decided of late: each sentence says what was done, or would have been done, and what hinders. */
function Decisions() {
  const { t, locale } = useSpeech();
  const query = { kind: NETWORK_EVENTS, limit: NEWEST, order: "newest" };
  const { data, error } = useThing("/api/v1/events", {}, { query });
  if (error !== null) return <Problem error={error} />;
  const events = data?.data.items ?? [];
  if (events.length === 0) return null;
  return (
    <>
      <h3>{t("proposal.decided")}</h3>
      <ul className="facts">
        {events.map(({ id, at_ms, text }) => (
          <li key={id}>
            <span className="faint">{formatTime(at_ms, locale)}</span> <Name text={text} whole />
          </li>
        ))}
      </ul>
    </>
  );
}

export function NetworkProposals() {
  const { t } = useSpeech();
  return (
    <div className="proposals">
      <FactList label={t("proposal.now")} names={["network-sick"]} none={t("proposal.network.none")} />
      <Decisions />
      <p>
        <a href={placeHref(["inspection"], { tab: "links" })}>{t("proposal.links")}</a>
      </p>
    </div>
  );
}

export function DiskProposals() {
  const { t } = useSpeech();
  return (
    <div className="proposals">
      <FactList label={t("proposal.now")} names={["disk-failing"]} none={t("proposal.disk.none")} />
      <p>
        <a href={placeHref(["inspection"], { q: "disk" })}>{t("proposal.disks")}</a>
      </p>
    </div>
  );
}
