//! A member that lies: a node of the cluster, with stores in sync and volumes of its own, that speaks in the name of others (rule
//! R14).
//!
//! Its stores and its sequencers are the product's, and so is what it does with them. Only on their way to the network some of its
//! answers are changed: into answers of another node's store, as they are, or as a refusal that would cost that store its place, or
//! its owner the volume; with credits and leases that it never granted. The store in whose name it spoke must lose nothing by that;
//! its own may, because it does not answer. (What it says of its own stores is not changed: see decision 029 for that.)

use super::node::store_id;
use crate::faults::Member;
use crate::random::Random;
use amita_fabric::Message;
use amita_reactor::Slice;
use amita_types::StoreId;
use amita_types::message::{Answer, Refusal};
use std::sync::{Arc, Mutex, PoisonError};

/// So many of a hundred answers are changed.
const PERCENT: u64 = 5;
const LEASE_MS: u16 = 60_000;
const CREDIT_BLOCKS: u32 = 100_000;

/// The stores in whose names a node speaks, and when it does.
#[derive(Clone, Debug)]
pub struct Imposter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    lies: bool,
    told: u64,
    random: Random,
    others: Vec<StoreId>,
}

impl Imposter {
    /// Does not lie yet. `members` nodes have so many `stores` each.
    #[must_use]
    pub fn new(node: Member, members: usize, stores: usize, random: Random) -> Imposter {
        let others = (0..members).filter(|member| *member != node);
        let others = others.flat_map(|member| (0..stores).map(move |store| store_id(member, store)));
        Imposter(Arc::new(Mutex::new(State {
            lies: false,
            told: 0,
            random,
            others: others.collect(),
        })))
    }

    /// Lies from now on, or not any more.
    pub fn set(&self, lies: bool) {
        self.state().lies = lies;
    }

    /// How many lies it has told.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.state().told
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message leaves the node.
    pub fn speak(&self, message: &mut Message, payload: &mut Slice) {
        let State {
            lies,
            told,
            random,
            others,
        } = &mut *self.state();
        if !*lies {
            return;
        }
        if let Message::Answer(answer) = message
            && random.percent(PERCENT)
        {
            pretend(random, others, answer, payload);
            *told += 1;
        }
    }
}

/// An answer in another store's name.
fn pretend(random: &mut Random, others: &[StoreId], answer: &mut Answer, payload: &mut Slice) {
    answer.store = *random.pick(others);
    answer.lease_ms = LEASE_MS;
    answer.credit_blocks = CREDIT_BLOCKS;
    let refusals = [
        Refusal::NoSpace,
        Refusal::Poisoned,
        Refusal::Incomplete,
        Refusal::NoSuchStore,
    ];
    if random.percent(70) {
        answer.result = Err(random.pick(&refusals).clone());
        *payload = Slice::default();
    }
}
