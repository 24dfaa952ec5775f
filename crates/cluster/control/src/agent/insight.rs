//! What a node can be asked about its part in the cluster, for who watches it: does it lead, since when is the metadata silent, and
//! where it leads, the cluster's figures.
//!
//! The figures are read when somebody asks, by a thread of their own, so that metadata which does not answer holds up nobody else: who
//! asks waits for a moment, and goes without. Between two questions nothing is read.

use super::Journal;
use super::lease::Shared;
use super::standing::Standing;
use crate::admin::{Figures, figures};
use amita_metadata::Client;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Figures that are so old are read anew. Several who ask at a time cost one reading.
const FRESH: Duration = Duration::from_secs(5);
/// For how long a reading is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Reading {
    under_way: bool,
    /// When the last one began, and what it brought; nothing, where the metadata did not answer.
    last: Option<(Instant, Option<Arc<Figures>>)>,
}

impl Reading {
    fn fresh(&self) -> Option<Option<Arc<Figures>>> {
        let (begun, figures) = self.last.as_ref()?;
        (begun.elapsed() < FRESH).then(|| figures.clone())
    }
}

/// A handle; its clones are one.
#[derive(Clone)]
pub struct Insight {
    client: Client,
    journal: Journal,
    lease: Shared,
    standing: Standing,
    reading: Arc<(Mutex<Reading>, Condvar)>,
}

impl Insight {
    pub(super) fn new(client: Client, journal: Journal, lease: Shared, standing: Standing) -> Insight {
        Insight {
            client,
            journal,
            lease,
            standing,
            reading: Arc::default(),
        }
    }

    /// Is this node the coordinator, as far as it knows?
    #[must_use]
    pub fn leads(&self) -> bool {
        self.journal.leads()
    }

    /// For how long the metadata has not answered when the node's lease was to be renewed. It is renewed three times in its life.
    #[must_use]
    pub fn silent(&self) -> Duration {
        self.lease.renewed().elapsed()
    }

    /// The cluster's figures, at most 5 s old. None where this node does not lead, where the metadata is not believed, and where it
    /// does not answer within 2 s.
    #[must_use]
    pub fn figures(&self) -> Option<Arc<Figures>> {
        if !self.leads() || self.standing.allow().is_err() {
            return None;
        }
        let mut reading = self.lock();
        if let Some(figures) = reading.fresh() {
            return figures;
        }
        if !reading.under_way {
            reading.under_way = self.start();
        }
        let (reading, _) = self
            .reading
            .1
            .wait_timeout_while(reading, PATIENCE, |reading| reading.under_way)
            .unwrap_or_else(PoisonError::into_inner);
        reading.fresh().flatten()
    }

    /// False: the system gives no thread.
    fn start(&self) -> bool {
        let own = self.clone();
        let read = move || {
            let begun = Instant::now();
            let found = figures(&own.client).ok().map(Arc::new);
            let mut reading = own.lock();
            reading.last = Some((begun, found));
            reading.under_way = false;
            own.reading.1.notify_all();
        };
        let started = std::thread::Builder::new().name("amita-figures".to_owned()).spawn(read);
        started.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
