//! What nodes remember of their figures: over time, by latency, of the most active, and when it will be full.

use super::input::Parameters;
use crate::observed::{self, MissingNode, Own, encode};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use crate::who::now;
use amita_history::answer::{self, By, Heatmap, Parts, Point, Row, TopPart};
use amita_history::forecast::{self, Forecast, Seen};
use amita_history::{Asked, Metric, Plan, STEPS_S, Subject};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How far back a question goes that does not say, in seconds.
const USUAL_SPAN_S: u64 = 3600;
/// Columns of a heat map.
const MAX_COLUMNS: u64 = 240;
/// The most active that are told, at most.
const MAX_TOP: usize = 100;
/// How far back a forecast looks.
const FORECAST_SPAN_S: u64 = 30 * 24 * 3600;
const FORECAST_STEP_S: u64 = 3600;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(heatmap))
        .routes(routes!(top))
        .routes(routes!(predict))
        .routes(routes!(part))
        .routes(routes!(top_part))
}

/// Of when.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Span {
    /// From when, in seconds since 1970; an hour before the end, where it is not said.
    from: Option<u64>,
    /// Until when; until now, where it is not said.
    to: Option<u64>,
    /// How many seconds points are apart; as fits the span, where it is not said. What is asked for is made longer where figures were not kept
    /// so finely; more than 2,000 points are refused.
    step: Option<u64>,
}

impl Span {
    fn plan(&self, most: Option<u64>) -> Result<Plan, Problem> {
        let now = now().as_secs();
        let to = self.to.unwrap_or(now);
        let from = self.from.unwrap_or_else(|| to.saturating_sub(USUAL_SPAN_S));
        let least = most.map(|most| to.saturating_sub(from).div_ceil(most));
        let step = match (self.step, least) {
            (Some(step), Some(least)) if step > 0 => Some(step.max(least)),
            (None, least) => least.filter(|least| *least > STEPS_S[0]),
            (step, _) => step,
        };
        Plan::new(from, to, step, now).map_err(|why| Problem::new(Code::BadRequest, why))
    }
}

/// Of what.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Of {
    /// `cluster`, `node/NAME`, `store/UUID`, `core/NODE/NUMBER` or `volume/NAME`.
    #[param(example = "cluster")]
    object: String,
}

impl Of {
    fn subject(&self) -> Result<Subject, Problem> {
        self.object.parse().map_err(|why| Problem::new(Code::BadRequest, why))
    }
}

/// Which figure.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// `iops`, `read-iops`, `write-iops`, `bytes`, `read-bytes`, `write-bytes`, `errors`, `latency`, `read-latency`, `write-latency`,
    /// `capacity`, `used`, `cpu`, `recovery`, `network-sent`, `network-received` or `requests`.
    #[param(example = "iops")]
    metric: String,
}

impl Which {
    fn asked(&self) -> Result<Asked, Problem> {
        Asked::named(&self.metric).ok_or_else(|| {
            let names: Vec<&str> = Asked::names().collect();
            let why = format!("there is no figure {:?}; there are {}", self.metric, names.join(", "));
            Problem::new(Code::BadRequest, why)
        })
    }
}

/// A figure over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct HistoryAnswer {
    /// Of what.
    object: String,
    /// Which figure.
    metric: String,
    /// In what it is told: `1/s`, `B/s`, `B`, `ns`, `processors`.
    #[schema(example = "1/s")]
    unit: String,
    /// From when, in seconds since 1970.
    from: u64,
    /// Until when.
    to: u64,
    /// How many seconds points are apart.
    step_s: u64,
    /// How many seconds apart the figures were kept that points are made of. Maxima of rates are those of ten seconds, however old.
    resolution_s: u64,
    /// In the order of time. A time in which nobody took figures has no point; nor has the latency of one without I/O.
    points: Vec<Point>,
    /// Nodes whose figures are not among them.
    missing: Vec<MissingNode>,
}

impl Own for Parts {
    fn whose(&self) -> (&str, &str) {
        (&self.node, &self.cluster)
    }
    fn keeps(&self) -> bool {
        self.keeps
    }
}

impl Own for TopPart {
    fn whose(&self) -> (&str, &str) {
        (&self.node, &self.cluster)
    }
    fn keeps(&self) -> bool {
        self.keeps
    }
}

/// What all nodes know of a figure.
async fn gather(
    api: &Api,
    asker: Asker,
    subject: &Subject,
    asked: Asked,
    plan: Plan,
) -> Result<(Vec<Parts>, Vec<MissingNode>), Problem> {
    let path = format!(
        "{}/history/part?object={}&metric={}&{}",
        crate::PREFIX,
        encode(&subject.to_string()),
        asked.name,
        parameters(&plan)
    );
    let peers = observed::peers(api, asker, subject.node().map(str::to_owned)).await?;
    let subject = subject.clone();
    observed::all(api, peers, path, move |own| parts(own, &subject, asked, &plan)).await
}

fn parameters(plan: &Plan) -> String {
    let Plan { part, from, to, step_s } = plan;
    format!("from={from}&to={to}&step={step_s}&resolution={}", STEPS_S[*part])
}

fn parts(own: &observed::Observed, subject: &Subject, asked: Asked, plan: &Plan) -> Parts {
    match &own.history {
        Some(history) => history.part(subject, asked, plan),
        None => Parts {
            node: own.node.clone(),
            cluster: own.cluster.clone(),
            keeps: false,
            points: Vec::new(),
        },
    }
}

/// A figure over time, of all nodes together: of the cluster, a node, a store, a core or a volume.
///
/// Each node keeps ten seconds apart for five hours, a minute for two days, and ten minutes for 30 days. Any node answers for all.
#[utoipa::path(get, path = "/history", operation_id = "showHistory", tag = "history", params(Of, Which, Span),
    responses((status = 200, body = HistoryAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Parameters(of): Parameters<Of>,
    Parameters(which): Parameters<Which>,
    Parameters(span): Parameters<Span>,
) -> Result<Json<HistoryAnswer>, Problem> {
    let (subject, asked, plan) = (of.subject()?, which.asked()?, span.plan(None)?);
    let (parts, missing) = gather(&api, asker, &subject, asked, plan).await?;
    Ok(Json(HistoryAnswer {
        object: subject.to_string(),
        metric: asked.name.to_owned(),
        unit: asked.unit().to_owned(),
        from: plan.from,
        to: plan.to,
        step_s: plan.step_s,
        resolution_s: STEPS_S[plan.part],
        points: answer::points(asked, &parts),
        missing,
    }))
}

/// How many I/Os took how long when.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct HeatmapAnswer {
    /// Of what.
    object: String,
    /// From when, in seconds since 1970.
    from: u64,
    /// Until when.
    to: u64,
    /// How many seconds columns are apart.
    step_s: u64,
    /// The map.
    #[serde(flatten)]
    map: Heatmap,
    /// Nodes whose figures are not in it.
    missing: Vec<MissingNode>,
}

/// Of what latency.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Latency {
    /// `latency` (of reads and writes), `read-latency` or `write-latency`.
    #[serde(default = "latency")]
    #[param(default = "latency")]
    metric: String,
}

fn latency() -> String {
    Asked::LATENCY.name.to_owned()
}

/// How many I/Os took how long when: at most 240 columns of time, two rows to each doubling of the latency.
#[utoipa::path(get, path = "/history/heatmap", operation_id = "showHeatmap", tag = "history", params(Of, Latency, Span),
    responses((status = 200, body = HeatmapAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn heatmap(
    State(api): State<Api>,
    asker: Asker,
    Parameters(of): Parameters<Of>,
    Parameters(Latency { metric }): Parameters<Latency>,
    Parameters(span): Parameters<Span>,
) -> Result<Json<HeatmapAnswer>, Problem> {
    let (subject, asked) = (of.subject()?, Which { metric }.asked()?);
    if asked.of.iter().any(|metric| !Asked::LATENCY.of.contains(metric)) {
        let why = format!(
            "{:?} is no latency; a heat map is of latency, read-latency or write-latency",
            asked.name
        );
        return Err(Problem::new(Code::BadRequest, why));
    }
    let plan = span.plan(Some(MAX_COLUMNS))?;
    let (parts, missing) = gather(&api, asker, &subject, asked, plan).await?;
    Ok(Json(HeatmapAnswer {
        object: subject.to_string(),
        from: plan.from,
        to: plan.to,
        step_s: plan.step_s,
        map: answer::heatmap(&parts),
        missing,
    }))
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum TopOf {
    /// Volumes.
    #[default]
    Volumes,
    /// Stores.
    Stores,
}

#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Ranking {
    /// What is compared.
    #[serde(default)]
    #[param(inline)]
    of: TopOf,
    /// By what: reads and writes, bytes, or the latency that 99 of a hundred do not exceed.
    #[serde(default)]
    #[param(inline)]
    by: By,
    /// So many at most.
    #[serde(default = "usual_top")]
    #[param(default = 10, minimum = 1, maximum = 100)]
    limit: usize,
}

fn usual_top() -> usize {
    10
}

/// One of the most active.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Talker {
    /// Its name; of a store its UUID.
    name: String,
    /// Reads and writes.
    ios: u64,
    /// Reads and writes a second.
    iops: f64,
    /// Bytes read and written a second.
    bytes_per_s: f64,
    /// How long reads and writes took, on average, in nanoseconds.
    mean_ns: u64,
    /// 99 of a hundred took no longer.
    p99_ns: u64,
}

impl Talker {
    fn new(row: &Row, seconds: f64) -> Talker {
        Talker {
            name: row.name.clone(),
            ios: row.ios,
            iops: row.ios as f64 / seconds,
            bytes_per_s: row.bytes as f64 / seconds,
            mean_ns: row.latency.mean_ns(),
            p99_ns: row.latency.permille_ns(990),
        }
    }
}

/// The most active.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TopAnswer {
    /// From when, in seconds since 1970.
    from: u64,
    /// Until when.
    to: u64,
    /// The most active first.
    rows: Vec<Talker>,
    /// All others together, those among them that were never among a node's busiest, of which nothing else is known.
    rest: Talker,
    /// Nodes whose figures are not among them.
    missing: Vec<MissingNode>,
}

fn of_top(own: &observed::Observed, of: TopOf, plan: &Plan) -> TopPart {
    match &own.history {
        Some(history) => history.top(of == TopOf::Stores, plan),
        None => TopPart::none(&own.node, &own.cluster),
    }
}

/// What was most active over a span of time: volumes, or stores.
#[utoipa::path(get, path = "/history/top", operation_id = "listTopTalkers", tag = "history", params(Ranking, Span),
    responses((status = 200, body = TopAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn top(
    State(api): State<Api>,
    asker: Asker,
    Parameters(ranking): Parameters<Ranking>,
    Parameters(span): Parameters<Span>,
) -> Result<Json<TopAnswer>, Problem> {
    let plan = span.plan(None)?;
    let Ranking { of, by, limit } = ranking;
    if !(1..=MAX_TOP).contains(&limit) {
        let why = format!("a limit is 1 to {MAX_TOP}, and not {limit}");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let name = match of {
        TopOf::Volumes => "volumes",
        TopOf::Stores => "stores",
    };
    let path = format!("{}/history/top-part?of={name}&{}", crate::PREFIX, parameters(&plan));
    let peers = observed::peers(&api, asker, None).await?;
    let (parts, missing) = observed::all(&api, peers, path, move |own| of_top(own, of, &plan)).await?;
    let (rows, rest) = answer::top(&parts, by, limit);
    let seconds = plan.seconds().max(1) as f64;
    Ok(Json(TopAnswer {
        from: plan.from,
        to: plan.to,
        rows: rows.iter().map(|row| Talker::new(row, seconds)).collect(),
        rest: Talker::new(&rest, seconds),
        missing,
    }))
}

/// When something will be full.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ForecastAnswer {
    /// What.
    object: String,
    /// A straight line through the last 30 days; none: they hold less than a day, or too little.
    forecast: Option<Forecast>,
    /// Nodes whose figures are not in it.
    missing: Vec<MissingNode>,
}

/// When the cluster, a node or a store will be full, as it grows now: a straight line through the last 30 days, with its uncertainty.
///
/// Times at which other stores were there do not count.
#[utoipa::path(get, path = "/history/forecast", operation_id = "showForecast", tag = "history", params(Of),
    responses((status = 200, body = ForecastAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn predict(
    State(api): State<Api>,
    asker: Asker,
    Parameters(of): Parameters<Of>,
) -> Result<Json<ForecastAnswer>, Problem> {
    let subject = of.subject()?;
    if matches!(subject, Subject::Core(..) | Subject::Volume(_)) {
        let why = format!("{subject} has no capacity; a forecast is of cluster, node/NAME or store/UUID");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let to = now().as_secs();
    let span = Span {
        from: Some(to.saturating_sub(FORECAST_SPAN_S)),
        to: Some(to),
        step: Some(FORECAST_STEP_S),
    };
    let plan = span.plan(None)?;
    let (used, capacity) = (Asked::of(Metric::Used), Asked::of(Metric::Capacity));
    let (of_used, missing) = gather(&api, asker.clone(), &subject, used, plan).await?;
    let (of_capacity, _) = gather(&api, asker, &subject, capacity, plan).await?;
    let capacities = answer::points(capacity, &of_capacity);
    let seen: Vec<Seen> = answer::points(used, &of_used)
        .into_iter()
        .filter_map(|point| {
            let at = capacities
                .binary_search_by_key(&point.at, |capacity| capacity.at)
                .ok()?;
            Some(Seen {
                at: point.at,
                used: point.mean,
                capacity: capacities[at].mean,
            })
        })
        .collect();
    Ok(Json(ForecastAnswer {
        object: subject.to_string(),
        forecast: forecast::forecast(&seen),
        missing,
    }))
}

/// Which intervals, as a node asks another one.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Intervals {
    /// From when, in seconds since 1970: a multiple of the step.
    from: u64,
    /// Until when.
    to: u64,
    /// How many seconds points are apart: a multiple of the resolution.
    step: u64,
    /// How many seconds apart figures were kept: 10, 60 or 600.
    resolution: u64,
}

impl Intervals {
    fn plan(&self) -> Result<Plan, Problem> {
        let part = STEPS_S.iter().position(|step| *step == self.resolution);
        let plan = part.and_then(|part| Plan::of(part, self.from, self.to, self.step));
        plan.ok_or_else(|| {
            let why = "these are no intervals that were kept; ask /api/v1/history, which chooses them";
            Problem::new(Code::BadRequest, why)
        })
    }
}

/// What this node alone knows of a figure, in a form that can be added: by this nodes ask each other.
#[utoipa::path(get, path = "/history/part", operation_id = "showHistoryPart", tag = "history", params(Of, Which, Intervals),
    responses((status = 200, body = Parts),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn part(
    State(api): State<Api>,
    asker: Asker,
    Parameters(of): Parameters<Of>,
    Parameters(which): Parameters<Which>,
    Parameters(intervals): Parameters<Intervals>,
) -> Result<Json<Parts>, Problem> {
    let (subject, asked, plan) = (of.subject()?, which.asked()?, intervals.plan()?);
    let own = api.own();
    let found = api.run(asker, move |_| Ok(parts(&own, &subject, asked, &plan)));
    found.await.map(Json)
}

#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Compared {
    /// What is compared.
    #[serde(default)]
    #[param(inline)]
    of: TopOf,
}

/// What was most active at this node alone, in a form that can be added: by this nodes ask each other.
#[utoipa::path(get, path = "/history/top-part", operation_id = "showTopPart", tag = "history", params(Compared, Intervals),
    responses((status = 200, body = TopPart),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn top_part(
    State(api): State<Api>,
    asker: Asker,
    Parameters(Compared { of }): Parameters<Compared>,
    Parameters(intervals): Parameters<Intervals>,
) -> Result<Json<TopPart>, Problem> {
    let plan = intervals.plan()?;
    let own = api.own();
    let found = api.run(asker, move |_| Ok(of_top(&own, of, &plan)));
    found.await.map(Json)
}
