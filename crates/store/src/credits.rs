//! Space is granted before it is used (rule R7).
//!
//! An *account* is one sequencer of one link: the upper bits of its request ids. Each answer tops the account up to a
//! target, and a write takes its blocks from there, so that a write to which a version was given finds space. An account
//! ends with its link, or when a newer generation of its volume is fenced: else every takeover would keep what the
//! owner before had been granted.

use crate::store::LinkId;
use amita_cluster::{Generation, RequestId, VolumeId};
use rustc_hash::FxHashMap;

/// The low bits of a request's id, which count; the others name the sequencer.
const COUNT_BITS: u32 = 40;
/// An account is topped up to this many blocks: several times what a sequencer has in flight with large writes.
const TARGET_BLOCKS: u64 = 2048;
/// As space runs out, an account gets at most this part of what is left, so that others get some too.
const SHARE: u64 = 8;
/// Accounts beyond this get nothing: a link's ids come from the network.
const MAX_ACCOUNTS: usize = 4096;

/// Who is granted space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountId {
    link: LinkId,
    sequencer: u64,
}

impl AccountId {
    pub fn new(link: LinkId, request: RequestId) -> AccountId {
        AccountId {
            link,
            sequencer: request.0 >> COUNT_BITS,
        }
    }
}

/// All accounts of a store.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    accounts: FxHashMap<AccountId, Account>,
    granted: u64,
}

/// What one sequencer has left, and which one it is.
#[derive(Clone, Copy, Debug)]
struct Account {
    left: u32,
    volume: VolumeId,
    generation: Generation,
}

impl Credits {
    /// Blocks that are granted and not used.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Makes the account of the volume's sequencer of this generation, if it is new. (A number may come back for another
    /// volume; what was left goes with it.)
    pub fn open(&mut self, account: AccountId, volume: VolumeId, generation: Generation) {
        if let Some(known) = self.accounts.get_mut(&account) {
            (known.volume, known.generation) = (volume, generation);
        } else if self.accounts.len() < MAX_ACCOUNTS {
            let left = 0;
            self.accounts.insert(
                account,
                Account {
                    left,
                    volume,
                    generation,
                },
            );
        }
    }

    /// A newer generation of the volume is fenced: what older ones have left returns.
    pub fn supersede(&mut self, volume: VolumeId, generation: Generation) {
        self.retain(|_, known| known.volume != volume || known.generation >= generation);
    }

    /// Takes `blocks` from the account; what it has not must be free besides all grants: `beyond` says how many are.
    /// `false`: there is no space, and nothing was taken.
    pub fn take(&mut self, account: AccountId, blocks: u32, beyond: u64) -> bool {
        let mut none = 0;
        let left = self
            .accounts
            .get_mut(&account)
            .map_or(&mut none, |known| &mut known.left);
        let covered = blocks.min(*left);
        if u64::from(blocks - covered) > beyond {
            return false;
        }
        *left -= covered;
        self.granted -= u64::from(covered);
        true
    }

    /// Tops the account up out of `spare` blocks that nobody was granted; returns how many it got. An account that is
    /// closed gets nothing.
    pub fn grant(&mut self, account: AccountId, spare: u64) -> u32 {
        let Some(Account { left, .. }) = self.accounts.get_mut(&account) else {
            return 0;
        };
        let target = TARGET_BLOCKS.min(u64::from(*left) + spare / SHARE);
        let more = target.saturating_sub(u64::from(*left)) as u32;
        *left += more;
        self.granted += u64::from(more);
        more
    }

    /// The link is closed: what it has left returns.
    pub fn close(&mut self, link: LinkId) {
        self.retain(|account, _| account.link != link);
    }

    /// What must hold between events.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self) {
        let left: u64 = self.accounts.values().map(|known| u64::from(known.left)).sum();
        assert_eq!(left, self.granted, "what is granted is on the accounts (R7)");
        let most = self.accounts.values().map(|known| u64::from(known.left)).max();
        assert!(most.unwrap_or(0) <= TARGET_BLOCKS && self.accounts.len() <= MAX_ACCOUNTS);
    }

    fn retain(&mut self, stays: impl Fn(&AccountId, &Account) -> bool) {
        let granted = &mut self.granted;
        self.accounts.retain(|account, known| {
            let stays = stays(account, known);
            if !stays {
                *granted -= u64::from(known.left);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests;
