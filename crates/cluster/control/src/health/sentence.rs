//! Whether to worry, in one sentence: what a person, a monitoring system and a page say first.

use super::Fact;
use crate::admin::{Status, StoreStatus};
use crate::events::Severity;
use amita_types::condition::StoreSpace;

/// How much of all stores that tell is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes for data.
    pub capacity_bytes: u64,
    /// Of them, bytes that hold something.
    pub used_bytes: u64,
}

impl Space {
    /// Of these stores together.
    #[must_use]
    pub fn of(stores: &[StoreStatus]) -> Space {
        let mut all = Space::default();
        for space in stores.iter().filter_map(|found| found.space) {
            all.capacity_bytes = all.capacity_bytes.saturating_add(space.capacity_bytes);
            all.used_bytes = all.used_bytes.saturating_add(StoreSpace::used_bytes(&space));
        }
        all
    }

    /// Of a hundred, rounded down; none: no store tells.
    #[must_use]
    pub fn used_percent(self) -> Option<u8> {
        let used = u128::from(self.used_bytes) * 100;
        let percent = used.checked_div(u128::from(self.capacity_bytes))?;
        Some(u8::try_from(percent).unwrap_or(u8::MAX).min(100))
    }
}

/// The sentence: `All is well: ...`, `I/O goes on, but ...` or `Not well: ...`, with what to do about the worst.
#[must_use]
pub fn sentence(status: &Status) -> String {
    let worst = status.facts.iter().map(|fact| fact.severity).max();
    match worst {
        Some(Severity::Error) => format!("Not well: {}", told(&status.facts, Severity::Error)),
        Some(Severity::Warning) => format!("I/O goes on, but look: {}", told(&status.facts, Severity::Warning)),
        Some(Severity::Info) | None => format!("All is well: {}.", counts(status)),
    }
}

fn counts(status: &Status) -> String {
    let some = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let mut counts = vec![
        some(status.nodes.len(), "node"),
        some(status.stores.len(), "store"),
        some(status.volumes.len(), "volume"),
    ];
    if let Some(percent) = Space::of(&status.stores).used_percent() {
        counts.push(format!("{percent} % used"));
    }
    counts.join(", ")
}

/// The first of the worst facts, what to do about it, and how many more there are.
fn told(facts: &[Fact], severity: Severity) -> String {
    let mut worst = facts.iter().filter(|fact| fact.severity == severity);
    let Some(first) = worst.next() else {
        return String::new();
    };
    let more = match worst.count() {
        0 => String::new(),
        1 => " And one thing more.".to_owned(),
        more => format!(" And {more} things more."),
    };
    let advice = match first.advice.is_empty() {
        true => super::Kind::named(first.name).map_or("", super::Kind::advice),
        false => first.advice.as_str(),
    };
    format!("{} {advice}{more}", first.text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Kind;

    fn fact(kind: Kind, text: &str, advice: &str) -> Fact {
        Fact::new(kind, ["main"], text.to_owned(), advice)
    }

    #[test]
    fn the_first_of_the_worst_is_told_with_what_to_do() {
        let facts = [
            fact(Kind::CopiesBelow, "Pool main waits.", ""),
            fact(Kind::PoolFull, "Pool main is full.", "Add stores."),
            fact(Kind::NodeDown, "Node n1 is down.", "Start it."),
        ];
        let error = told(&facts, Severity::Error);
        assert!(error.starts_with("Pool main waits. Start the nodes"), "{error}");
        assert!(error.ends_with("And one thing more."), "{error}");
        assert_eq!(told(&facts, Severity::Warning), "Node n1 is down. Start it.");
        assert_eq!(told(&facts[..0], Severity::Warning), "");
    }

    #[test]
    fn no_store_that_tells_has_no_percent() {
        assert_eq!(Space::default().used_percent(), None);
        let space = Space {
            capacity_bytes: 1000,
            used_bytes: 419,
        };
        assert_eq!(space.used_percent(), Some(41));
    }
}
