//! Reservations of a volume: which hosts may read and write it. The same for NVMe ("Reservations", NVM Express Base 2.1,
//! 8.1.22) and SCSI (persistent reservations, SPC-4): pure, and kept in the metadata as [`State`].
//!
//! The volume's owner holds all I/O against it, so that a change holds at every gateway from the moment that it is
//! acknowledged.

/// What a host asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Nothing is changed: the state is told.
    Report,
}

/// What is reserved, and who is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Counts the changes ("GEN").
    pub generation: u32,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It conflicts with what is reserved or registered.
    Conflict,
    /// The volume cannot be reached now.
    Unavailable,
}
