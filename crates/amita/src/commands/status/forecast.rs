//! When the stores will be full, as the nodes' history says it.

use crate::cli::Endpoints;
use amita_control::admin::Status;
use amita_control::events::Severity;
use amita_control::health::Space;
use amita_history::ask;
use amita_history::forecast::Forecast;
use amita_identity::{Clock, Live};
use amita_terminal::size;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PATH: &str = "/api/v1/history/forecast?object=cluster";
/// What is further off is not told.
const SOON_DAYS: f64 = 90.0;
/// All nodes that are asked, one after the other, may take so long: who wants a status does not wait for what comes last in it.
const PATIENCE: Duration = Duration::from_secs(2);
/// While a status is looked at, it is asked anew so often: all nodes are asked for what they remember of a month.
const EVERY: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct Answer {
    forecast: Option<Forecast>,
}

/// What is known while a status is shown again and again.
#[derive(Default)]
pub(super) struct Known {
    asked: Option<Instant>,
    forecast: Option<Forecast>,
}

impl Known {
    /// What is known now; asked for where it was not, or long ago.
    pub(super) fn now(&mut self, status: &Status, metadata: &Endpoints) -> Option<&Forecast> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= EVERY) {
            self.forecast = look(status, metadata);
            self.asked = Some(Instant::now());
        }
        self.forecast.as_ref()
    }
}

/// Asks the nodes that live until one of them answers. None: nobody knows, or there is worse to look at.
fn look(status: &Status, metadata: &Endpoints) -> Option<Forecast> {
    let is_worse = status.facts.iter().any(|fact| fact.severity == Severity::Error);
    if is_worse || Space::of(&status.stores).used_percent().is_none() {
        return None;
    }
    // A node has no right to ask others in its own name for somebody else.
    if metadata.lent().is_some() {
        return None;
    }
    let identity = match metadata.identity() {
        Some(folder) => Some(Live::open(folder, Clock::system()).ok()?),
        None => None,
    };
    let until = Instant::now() + PATIENCE;
    for found in status.nodes.iter().filter(|found| found.alive) {
        let Some(address) = &found.node.api else { continue };
        if identity.is_none() && !is_own(address) {
            continue;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let said = ask::get_blocking_within(address, &found.node.name, PATH, identity.as_ref(), left);
        if let Some(body) = said.ok().and_then(|said| said.done().ok()) {
            return serde_json::from_slice::<Answer>(&body).ok()?.forecast;
        }
    }
    None
}

/// Without an identity another machine's answer is not believed: it is not waited for either.
fn is_own(address: &str) -> bool {
    let address = address.parse::<SocketAddr>();
    address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

/// The line below what is used; none: there is room for long, or nothing left, which the facts tell.
pub(super) fn line(forecast: &Forecast) -> Option<String> {
    let full = forecast.levels.iter().find(|reach| reach.percent == 100)?;
    let days = full.days.filter(|days| *days > 0.0 && *days <= SOON_DAYS)?;
    let soonest = shown(full.soonest_days.unwrap_or(days));
    let latest = match full.latest_days {
        Some(latest) => format!("{} at the latest", shown(latest)),
        None => "perhaps never".to_owned(),
    };
    Some(format!(
        "        full in about {} as it grows now, by {} a day ({soonest} at the soonest, {latest})\n",
        shown(days),
        size::show(forecast.bytes_per_day.max(0.0) as u64)
    ))
}

/// In whole days, one at least.
fn shown(days: f64) -> String {
    match days.round().max(1.0) as u64 {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use amita_history::forecast::Reach;

    /// Of stores that are full in so many days; 60 of 100 GiB hold something, and a GiB a day is added.
    pub(in crate::commands::status) fn forecast(
        days: Option<f64>,
        soonest_days: Option<f64>,
        latest_days: Option<f64>,
    ) -> Forecast {
        let reach = |percent, days| Reach {
            percent,
            days,
            soonest_days,
            latest_days,
        };
        Forecast {
            used_bytes: 60 << 30,
            capacity_bytes: 100 << 30,
            bytes_per_day: f64::from(1 << 30),
            bytes_per_day_low: 0.0,
            bytes_per_day_high: 0.0,
            span_s: 86_400,
            levels: vec![reach(85, Some(1.0)), reach(100, days)],
        }
    }

    #[test]
    fn it_is_told_where_all_is_full_within_ninety_days() {
        let soon = line(&forecast(Some(40.4), Some(35.6), Some(50.2))).expect("soon");
        let grows = size::show(1 << 30);
        assert_eq!(
            soon,
            format!(
                "        full in about 40 days as it grows now, by {grows} a day (36 days at the soonest, 50 days at the latest)\n"
            )
        );
        let unsure = line(&forecast(Some(0.2), Some(0.1), None)).expect("soon");
        assert!(
            unsure.contains("in about 1 day as") && unsure.contains("(1 day at the soonest, perhaps never)"),
            "{unsure}"
        );
        assert!(line(&forecast(Some(90.0), Some(90.0), Some(90.0))).is_some());
    }

    #[test]
    fn nothing_is_told_of_what_is_far_off_or_full_or_does_not_grow() {
        assert_eq!(line(&forecast(Some(90.1), Some(80.0), Some(100.0))), None);
        assert_eq!(line(&forecast(Some(0.0), Some(0.0), Some(0.0))), None);
        assert_eq!(line(&forecast(None, None, None)), None);
    }

    #[test]
    fn without_an_identity_only_the_own_machine_is_asked() {
        assert!(is_own("127.0.0.1:7780") && is_own("[::1]:7780"));
        for other in ["192.0.2.1:7780", "node1:7780", ""] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn an_answer_has_a_forecast_or_none() {
        let text = serde_json::json!({ "object": "cluster", "missing": [], "forecast": null }).to_string();
        assert!(
            serde_json::from_str::<Answer>(&text)
                .expect("an answer")
                .forecast
                .is_none()
        );
        let found = forecast(Some(3.0), None, None);
        let text = serde_json::json!({ "object": "cluster", "missing": [], "forecast": found }).to_string();
        assert_eq!(
            serde_json::from_str::<Answer>(&text).expect("an answer").forecast,
            Some(found)
        );
    }
}
