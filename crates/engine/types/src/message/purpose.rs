//! What a request is for.

/// The finalized cluster version from which on [`Purpose::Backup`] is told to other nodes: programs from before take a frame that says so for damage.
/// It is the next one, so that until then they are told of a move.
pub const BACKUPS_TOLD_SINCE: u32 = 6;

/// What a request is for, as far as whoever asks says so. A store that is busy puts what waits in an order by that; nothing else hangs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// What its kind says.
    #[default]
    Unsaid = 0,
    /// A host waits for it.
    Client = 1,
    /// A copy that is lacking, or has rotted.
    Recovery = 2,
    /// Data is to lie elsewhere.
    Move = 3,
    /// Copies are compared.
    Scrub = 4,
    /// What is kept elsewhere reads it: a backup, a mirror.
    Backup = 5,
}

impl Purpose {
    /// All, by their numbers.
    pub const ALL: [Purpose; 6] = [
        Purpose::Unsaid,
        Purpose::Client,
        Purpose::Recovery,
        Purpose::Move,
        Purpose::Scrub,
        Purpose::Backup,
    ];
}
