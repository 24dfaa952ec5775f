//! Runs the checker, and says what it has seen.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

/// What the checker has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Distinct states.
    pub states: usize,
    /// Steps that were tried, also those that led to a state that was known.
    pub steps: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// The properties that do not hold, each with the way to the first state that breaks it.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// The things that can happen, of those that should be able to.
    pub happened: Vec<&'static str>,
}

impl Seen {
    /// The length of the way to what is broken; 0: nothing is.
    #[must_use]
    pub fn length(&self) -> usize {
        self.broken.iter().map(|(_, way)| way.len()).min().unwrap_or(0)
    }
}

/// Tries everything, breadth first, until something is broken or nothing is left. One thread, so that the numbers are the same
/// each time.
pub fn explore<M>(model: M) -> Seen
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + PartialEq + std::hash::Hash + Send + Sync + 'static,
    M::Action: Clone + PartialEq + std::fmt::Debug,
{
    let start = Instant::now();
    let always: Vec<_> = (model.properties().iter())
        .filter(|property| property.expectation == stateright::Expectation::Always)
        .map(|property| property.name)
        .collect();
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let (mut broken, mut happened) = (Vec::new(), Vec::new());
    for (name, path) in checker.discoveries() {
        if always.contains(&name) {
            broken.push((
                name,
                path.into_actions().iter().map(|action| format!("{action:?}")).collect(),
            ));
        } else {
            happened.push(name);
        }
    }
    Seen {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time: start.elapsed(),
        broken,
        happened,
    }
}
