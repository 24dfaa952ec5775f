import { Mark } from "../../components/Mark";
import { useList, useThing } from "../../api/queries";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { useJobs } from "../jobs/useJobs";
import { Capacity } from "./Capacity";
import { Counts } from "./Counts";
import { Facts } from "./Facts";
import { Rebuilds } from "./Rebuilds";
import { Traffic } from "./Traffic";
import { Work } from "./Work";

/** All nodes are asked for what they remember of a month. */
const FORECAST_EVERY_MS = 600_000;

/** Is all well, how much room is there, what do clients do, what is being repaired. */
export default function Overview() {
  const { t } = useSpeech();
  const health = useThing("/api/v1/health");
  const nodes = useList("/api/v1/nodes");
  const stores = useList("/api/v1/stores");
  const pools = useList("/api/v1/pools");
  const jobs = useJobs();
  // Where nobody knows, nothing is said: that is no error of this screen.
  const forecast = useThing(
    "/api/v1/history/forecast",
    {},
    { query: { object: "cluster" }, everyMs: FORECAST_EVERY_MS },
  );
  const error = health.error ?? nodes.error ?? stores.error ?? pools.error ?? jobs.error;
  return (
    <>
      <div className="screen-head">
        <h1>{t("screen.overview")}</h1>
        {health.data === undefined ? null : <Mark>{t("overview.cluster", { cluster: health.data.data.cluster })}</Mark>}
      </div>
      {error === null ? null : <Problem error={error} />}
      <Facts health={health.data?.data} />
      <div className="cards">
        <Capacity stores={stores.items} forecast={forecast.data?.data.forecast} />
        <Work jobs={jobs.items} />
        <Counts nodes={nodes.items} stores={stores.items} pools={pools.items} />
      </div>
      <Traffic />
      <Rebuilds stores={stores.items} jobs={jobs.items} />
    </>
  );
}
