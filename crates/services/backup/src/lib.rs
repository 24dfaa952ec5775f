//! Backups of volumes in an object store.
//!
//! A *repository* is a prefix of an S3 bucket, or a folder. In it lie *vaults*, each of one key that is sealed by passphrases and known to
//! no cluster's metadata; who has one vault's key learns nothing of the others, not even that they hold equal data.
//!
//! **One order.** All that happens to a vault is an entry of its *journal*: objects with the numbers 1, 2, 3..., each put only if it is not
//! there yet. So writers agree on one order without locks, leases in seconds or listings, and what a vault is ([`State`]) follows from its
//! entries alone. A *session* (a running backup, restore or check) is named by the number of the entry that began it.
//!
//! **Data.** A volume is cut into *pieces* of 4 to 256 KiB, named by a keyed hash, compressed, sealed, and put together in *packs*. Which
//! pieces a volume has at a *point* is a tree of three levels, whose *leaves* and *branches* are pieces, too: a point shares what did not
//! change with the one before it, and depends on no other.
//!
//! **Pruning** goes in two phases ([`prune`]): packs that no point needs are *condemned*, so that no later session builds on them; when
//! every session that began before has ended, or was fenced, what is still needed by nobody is *swept*. No clock decides.
//!
//! * `store`: what is asked of an object store; a folder, S3, a limit before either.
//! * `slot`, `seal`: passphrases and keys; how objects are sealed.
//! * `piece`, `pack`, `tree`: data.
//! * `entry`, `state`, `journal`, `checkpoint`: the order.
//! * `vault`, `session`, `backup`: writing; `read`: reading; `walk`, `prune`, `verify`, `watch`: what keeps a vault in order.
//!
//! The format is `docs/backup-format.md`; why it is our own is decision 079.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod backup;
mod checkpoint;
mod codec;
mod entry;
mod error;
mod journal;
mod pack;
mod piece;
pub mod prune;
mod read;
mod seal;
mod session;
mod slot;
mod state;
pub mod store;
#[cfg(test)]
mod tests;
mod tree;
mod vault;
pub mod verify;
mod walk;
mod watch;

pub use backup::{Change, Source, Volume};
pub use codec::Malformed;
pub use entry::{Entry, Identity, Packs, Point, VolumePoint};
pub use error::Error;
pub use journal::Head;
pub use pack::{Directory, PackName};
pub use piece::{BLOCK_BYTES, Class, MAX_PIECE_BYTES, PieceId};
pub use read::{Reader, Sink};
pub use session::{Sent, Session};
pub use slot::{Cost, DRAWN, KeySlot, is_drawn};
pub use state::{OpenSession, Refusal, SessionId, State};
pub use tree::{BRANCH_BYTES, Branch, Extent, LEAF_BYTES, Leaf, MAX_VOLUME_BYTES};
pub use vault::{Options, Vault, VaultId};
pub use watch::Watch;
