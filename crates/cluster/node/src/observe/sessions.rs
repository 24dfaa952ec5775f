//! The sessions of initiators at a node, for a person who looks: piece by piece, since there may be thousands.

use amita_iscsi::SessionReport;
use amita_reactor::Time;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Which sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsWanted {
    /// Only those behind this one: its core, and its number there.
    pub after: Option<(usize, u64)>,
    /// So many at most.
    pub limit: usize,
    /// Of the initiator of this name only, in its canonical form.
    pub initiator: Option<String>,
    /// With the target of this iSCSI name only.
    pub target: Option<String>,
}

impl SessionsWanted {
    /// Is it about a session with these ends?
    #[must_use]
    pub fn is_about(&self, initiator: &str, target: Option<&str>) -> bool {
        self.initiator.as_deref().is_none_or(|wanted| wanted == initiator)
            && self.target.as_deref().is_none_or(|wanted| target == Some(wanted))
    }
}

/// A question to a core: answered with one [`CoreSessions`].
#[derive(Clone, Debug)]
pub struct SessionsQuestion {
    /// Only those whose number at this core is above, the lowest first.
    pub after: u64,
    pub wanted: Arc<SessionsWanted>,
    /// Where the answer goes.
    pub reply: Sender<Box<CoreSessions>>,
}

/// A session, as its core tells of it.
#[derive(Clone, Debug)]
pub struct FoundSession {
    /// The number of its connection at this core: never given twice while the process runs.
    pub number: u64,
    /// Where the initiator comes from.
    pub peer: Option<SocketAddr>,
    pub report: SessionReport,
}

/// Sessions of a core.
#[derive(Clone, Debug)]
pub struct CoreSessions {
    pub core: usize,
    /// When it answered, on the clock of the reports.
    pub now: Time,
    /// In the order of their numbers.
    pub sessions: Vec<FoundSession>,
    /// There are more behind them.
    pub is_cut: bool,
}

/// Sessions of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeSessions {
    /// In the order of the cores.
    pub cores: Vec<CoreSessions>,
    /// There are more behind them.
    pub is_cut: bool,
    /// Cores that have not answered in two seconds.
    pub silent: usize,
}

/// Asks the cores of a node, one after the other, until there are as many as are wanted.
pub type CollectSessions = Arc<dyn Fn(&SessionsWanted) -> NodeSessions + Send + Sync>;
