//! The metadata is rebuilt from what the stores know.
//!
//! **The story.** The metadata is lost, or an older copy has taken its place. Every store has three things that outlive
//! it: a copy of all records that is at most seconds old when its node was well ([`Records`]); of each group the epoch
//! that it adopted last, with the in-sync set; of each volume the newest generation. The first says what there is, the
//! other two say what has changed since.
//!
//! **Mechanism.** The newest copy counts, of all stores that were looked at. A group gets the newest epoch that any store
//! knows, with that epoch's in-sync set, plus one; a volume the newest generation, plus one: whoever still runs by the
//! old metadata is refused. Nobody is syncing any more: who was begins anew. A store that is in no in-sync set keeps its
//! data and is not believed.
//!
//! **Why that is right.** What was acknowledged lies on all members that were in sync then, and who left that set
//! afterwards missed nothing that the others do not hold. An epoch that no store has adopted yet has acknowledged
//! nothing that the members of the one before it do not hold together: chunks are opened by asking all of them, and the
//! longest wins. Therefore *all* in-sync members that the newest epoch names must have been looked at. Where one is gone
//! for good, what only it had is lost, and the operator says so by its name.
//!
//! **Keys.** The wrapped keys of encrypted volumes are records like all others, and come with the copy. A volume that no copy names has lost its key
//! with its record, if it had one; and no store knows whether it had. It is opened as plain where a store holds a block of it that no cipher has
//! made, or where the operator says so.
//!
//! **Copies.** A volume that was becoming a copy of another one goes on becoming it, if nobody can have used it since; else the operator says
//! whether it was whole.

mod copies;
mod rebuild;
mod source;
mod word;
mod write;

pub use rebuild::{MissingStore, Rebuilt, RecoverError, Report, rebuild};
pub use source::{Bundle, KnownGroup, KnownVolume, Source};
pub use word::Word;
pub use write::{WriteError, write};

#[cfg(test)]
mod tests;
