//! The whole graph of a model that is small enough to be kept: the shortest way to whatever is broken, and what can still be reached.
//!
//! # Liveness
//! A model's steps are those of the system, which are taken some time if they can be taken again and again (they are *fair*), and
//! those of its surroundings (faults, more requests), which need not be taken at all. A run is fair if from every state that it meets
//! again and again it takes, again and again, every fair step that is possible there: what chance does. The graph is finite, so such a
//! run stays, from some moment on, among states that it meets again and again, and these are closed under fair steps. So if **from
//! every state that can be reached a goal can be reached by fair steps alone**, every fair run meets a goal again and again; and if from
//! some state none can, the run that goes there and takes only fair steps from then on never meets one. [`Graph::stuck`] looks for such a
//! state. A schedule that is never left to chance, as a timer's, has to be part of the model's steps ([`crate::silence`]).

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Expectation, Model};

use crate::explore::Seen;

/// All states, in the order of the shortest way to each, and all steps.
pub struct Graph<M: Model> {
    model: M,
    states: Vec<M::State>,
    /// How each state was found: from which, by what.
    found: Vec<Option<(u32, M::Action)>>,
    /// From each state: what may happen, and where it leads.
    steps: Vec<Vec<(M::Action, u32)>>,
    depth: usize,
    time: Duration,
}

impl<M> Graph<M>
where
    M: Model,
    M::State: Clone + Eq + Hash,
    M::Action: Clone + Debug,
{
    /// Tries everything, breadth first.
    #[must_use]
    pub fn of(model: M) -> Self {
        Self::explored(model, false)
    }

    /// Tries everything, breadth first, until something that must always hold does not: that state is the last one then, and its way
    /// the shortest there is.
    #[must_use]
    pub fn until_broken(model: M) -> Self {
        Self::explored(model, true)
    }

    fn explored(model: M, until_broken: bool) -> Self {
        let start = Instant::now();
        let mut numbers: HashMap<M::State, u32> = HashMap::new();
        let mut graph = Self {
            model,
            states: Vec::new(),
            found: Vec::new(),
            steps: Vec::new(),
            depth: 0,
            time: Duration::ZERO,
        };
        let mut depths: Vec<usize> = Vec::new();
        for state in graph.model.init_states() {
            if !numbers.contains_key(&state) {
                numbers.insert(state.clone(), graph.states.len() as u32);
                graph.states.push(state);
                graph.found.push(None);
                depths.push(1);
            }
        }
        let always: Vec<_> = (graph.model.properties().into_iter())
            .filter(|property| until_broken && property.expectation == Expectation::Always)
            .collect();
        let mut actions = Vec::new();
        let mut at = 0;
        while at < graph.states.len() {
            let state = graph.states[at].clone();
            if always
                .iter()
                .any(|property| !(property.condition)(&graph.model, &state))
            {
                graph.states.truncate(at + 1);
                break;
            }
            graph.model.actions(&state, &mut actions);
            let mut steps = Vec::new();
            for action in actions.drain(..) {
                let Some(next) = graph.model.next_state(&state, action.clone()) else {
                    continue;
                };
                let new = u32::try_from(graph.states.len()).expect("fewer states than 32 bits number");
                let number = *numbers.entry(next.clone()).or_insert(new);
                if number == new {
                    graph.states.push(next);
                    graph.found.push(Some((at as u32, action.clone())));
                    depths.push(depths[at] + 1);
                }
                steps.push((action, number));
            }
            graph.steps.push(steps);
            at += 1;
        }
        graph.depth = depths.into_iter().max().unwrap_or(0);
        graph.time = start.elapsed();
        graph
    }

    fn way(&self, to: usize) -> Vec<String> {
        let mut way = Vec::new();
        let mut at = to;
        while let Some((from, action)) = &self.found[at] {
            way.push(format!("{action:?}"));
            at = *from as usize;
        }
        way.reverse();
        way
    }

    /// What is broken, each with the shortest way to it, and what can happen.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let (mut broken, mut happened) = (Vec::new(), Vec::new());
        for property in self.model.properties() {
            let holds = |state: &M::State| (property.condition)(&self.model, state);
            match property.expectation {
                Expectation::Always => {
                    if let Some(at) = self.states.iter().position(|state| !holds(state)) {
                        broken.push((property.name, self.way(at)));
                    }
                }
                Expectation::Sometimes => {
                    if self.states.iter().any(holds) {
                        happened.push(property.name);
                    }
                }
                // See above for what is done instead.
                Expectation::Eventually => unreachable!("what must happen is asked of Graph::stuck"),
            }
        }
        Seen {
            states: self.states.len(),
            steps: self.steps.iter().map(Vec::len).sum(),
            depth: self.depth,
            time: self.time,
            broken,
            happened,
        }
    }

    /// The shortest way to a state from which fair steps never lead to a goal; `None`: there is no such state.
    pub fn stuck(
        &self,
        goal: impl Fn(&M::State) -> bool,
        fair: impl Fn(&M::State, &M::Action) -> bool,
    ) -> Option<Vec<String>> {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.states.len()];
        for (from, steps) in self.steps.iter().enumerate() {
            for (action, to) in steps {
                if fair(&self.states[from], action) {
                    before[*to as usize].push(from as u32);
                }
            }
        }
        let mut leads: Vec<bool> = self.states.iter().map(goal).collect();
        let mut new: VecDeque<usize> = (0..leads.len()).filter(|at| leads[*at]).collect();
        while let Some(to) = new.pop_front() {
            for &from in &before[to] {
                if !std::mem::replace(&mut leads[from as usize], true) {
                    new.push_back(from as usize);
                }
            }
        }
        leads.iter().position(|leads| !leads).map(|at| self.way(at))
    }
}

#[cfg(test)]
mod tests;
