//! Space is granted before it is used (rule R7).
//!
//! An *account* is one sequencer of one link: the upper bits of its request ids. Each answer tops the account up to a
//! target, and a write takes its blocks from there, so that a write to which a version was given finds space.

use crate::store::LinkId;
use amita_cluster::RequestId;
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
    accounts: FxHashMap<AccountId, u32>,
    granted: u64,
}

impl Credits {
    /// Blocks that are granted and not used.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Makes the account, if it is new: its first request came in.
    pub fn open(&mut self, account: AccountId) {
        if self.accounts.len() < MAX_ACCOUNTS {
            self.accounts.entry(account).or_insert(0);
        }
    }

    /// Takes `blocks` from the account; what it has not must be free besides all grants: `beyond` says how many are.
    /// `false`: there is no space, and nothing was taken.
    pub fn take(&mut self, account: AccountId, blocks: u32, beyond: u64) -> bool {
        let mut none = 0;
        let left = self.accounts.get_mut(&account).unwrap_or(&mut none);
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
        let Some(left) = self.accounts.get_mut(&account) else {
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
        let granted = &mut self.granted;
        self.accounts.retain(|account, left| {
            let stays = account.link != link;
            if !stays {
                *granted -= u64::from(*left);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests;
