//! One core's side of the target.

use crate::catalog::{Catalog, Common};
use crate::chap::Algorithm;
use crate::faults::Faults;
use crate::negotiation::Wishes;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most commands that a session has under way.
pub const MAX_COMMANDS: u16 = 1024;
/// Commands that are to be delivered at once (the I bit) which a session may have beside those of its window.
pub const MAX_IMMEDIATE: usize = 16;

/// Fills a buffer with random numbers.
pub type Random = Box<dyn FnMut(&mut [u8])>;

/// Seconds since 1970.
pub type Clock = Box<dyn Fn() -> u64>;

/// The settings of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What it wants of a session.
    pub wishes: Wishes,
    /// The hashes that initiators may prove themselves by, the preferred one first.
    pub hashes: Vec<Algorithm>,
    /// Must those who have a secret prove themselves to discover, too?
    pub discovery_is_proven: bool,
    /// May a session that sees all of a target reset it, with the tasks of all others?
    pub target_resets: bool,
    /// Commands of a session that may be under way: at most [`MAX_COMMANDS`].
    pub commands: u16,
    /// Bytes that one session reads from volumes, or has read and its host has not fetched.
    pub read_bytes: usize,
    /// Bytes of writes of one session: asked for, or being written. As many again may come unasked.
    pub write_bytes: usize,
    /// Bytes of commands of one session that need their data as a whole.
    pub gather_bytes: usize,
    /// Pieces of zeroing, unmapping and the like that one session has under way.
    pub pieces: usize,
    /// How long a host may take from its connection to the end of its login.
    pub login_timeout: Duration,
    /// After so long a silence a host is asked whether it is there (NOP-In), and after as long again it is given up.
    pub ping_after: Duration,
    /// How old a command may grow while its host is silent. Longer only while the host is heard.
    pub stale_after: Duration,
    /// How long sessions have to log out when they are asked to.
    pub logout_time: Duration,
    /// Rules that are switched off.
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Config {
        // 2 MiB of data keep a network of 10 Gbit/s busy for 1.6 ms: longer than any I/O should take.
        Config {
            wishes: Wishes::default(),
            hashes: Algorithm::ALL.to_vec(),
            discovery_is_proven: true,
            target_resets: true,
            commands: 128,
            read_bytes: 2 << 20,
            write_bytes: 2 << 20,
            gather_bytes: 2 << 20,
            pieces: 256,
            login_timeout: Duration::from_secs(10),
            ping_after: Duration::from_secs(15),
            stale_after: Duration::from_secs(1),
            logout_time: Duration::from_secs(5),
            faults: Faults::NONE,
        }
    }
}

impl Config {
    /// Refuses limits that make no sense.
    ///
    /// # Panics
    /// Then: they are settings of this program.
    fn assert_sound(&self) {
        let wishes = &self.wishes;
        assert!(
            (1..=MAX_COMMANDS).contains(&self.commands)
                && self.pieces > 0
                && !self.hashes.is_empty()
                && (8192..1 << 24).contains(&wishes.max_receive)
                && (512..1 << 24).contains(&wishes.max_burst)
                && (512..=wishes.max_burst).contains(&wishes.first_burst)
                && wishes.max_outstanding_r2t > 0,
            "limits that make no sense: {self:?}"
        );
    }
}

/// One core's side of the target: what all its fronts share.
#[derive(Debug, Default)]
pub struct Port {
    catalog: RefCell<Arc<Catalog>>,
    /// What follows from it for many sessions alike.
    common: RefCell<Common>,
    config: Config,
    source: Source,
    calendar: Calendar,
}

/// Where random numbers come from: the system, unless it is told otherwise.
struct Source(RefCell<Random>);

impl Default for Source {
    fn default() -> Source {
        Source(RefCell::new(Box::new(amita_keys::system_random)))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// What time it is where it is compared with other gateways' (until when a token holds): the system says, unless it is told otherwise.
struct Calendar(RefCell<Clock>);

impl Default for Calendar {
    fn default() -> Calendar {
        let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Calendar(RefCell::new(Box::new(move || since().as_secs())))
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calendar")
    }
}

impl Port {
    /// A port that knows of no target yet.
    ///
    /// # Panics
    /// When the limits make no sense: they are settings of this program.
    #[must_use]
    pub fn new(config: Config) -> Port {
        config.assert_sound();
        Port {
            config,
            ..Port::default()
        }
    }

    /// The settings of the moment.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// What follows from them for many sessions alike.
    pub(crate) fn common(&self) -> Common {
        self.common.borrow().clone()
    }

    /// Takes new settings. The caller then tells every front ([`amita_frontend::Event::Settings`]).
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        let common = Common::of(&catalog, &self.common.borrow());
        *self.common.borrow_mut() = common;
        *self.catalog.borrow_mut() = catalog;
    }

    /// Takes random numbers from elsewhere: for the simulation, where a run is to be the same again.
    pub fn set_random(&self, random: Random) {
        *self.source.0.borrow_mut() = random;
    }

    /// Takes the time from elsewhere: for the simulation.
    pub fn set_clock(&self, clock: Clock) {
        *self.calendar.0.borrow_mut() = clock;
    }

    /// Seconds since 1970, as far as this gateway knows.
    pub(crate) fn seconds(&self) -> u64 {
        (self.calendar.0.borrow())()
    }

    /// Fills a buffer with random numbers.
    pub(crate) fn random(&self, bytes: &mut [u8]) {
        (self.source.0.borrow_mut())(bytes);
    }

    /// The settings of the target.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
}
