//! What a request is for.

/// What a request is for, as far as whoever asks says so. A store that is busy puts what waits in an order by that; nothing else hangs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
}

impl Purpose {
    /// All, by their numbers.
    pub const ALL: [Purpose; 5] = [
        Purpose::Unsaid,
        Purpose::Client,
        Purpose::Recovery,
        Purpose::Move,
        Purpose::Scrub,
    ];
}
