//! Space is granted before it is used (rule R7).
//!
//! An *account* is one sequencer of one link: the upper bits of its request ids. Each answer tops the account up to a
//! target, and a write takes its blocks from there, so that a write to which a version was given finds space. Both ends
//! count the same: what comes again on a link is taken again, what is refused is given back, and what no credits are asked
//! for (roll-forwards, mends) is taken from nobody's account. So the sequencer never counts more than the store does.
//!
//! What is granted is kept from all others, so little of it may lie about: targets shrink with the number of accounts, and
//! sequencers that write nothing give back what they have. An account ends with its link, or when a newer generation of its
//! volume is fenced. Writes that it was granted for may be under way then: they come again by another link, or are rolled
//! forward by the next owner. So what the account had *lingers* for a while: it is granted to nobody, and taken by what comes
//! without credits.

use crate::store::LinkId;
use amita_reactor::Time;
use amita_types::{Generation, RequestId, VolumeId};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The low bits of a request's id, which count; the others name the sequencer.
const COUNT_BITS: u32 = 40;
/// An account is topped up to this many blocks: several times what a sequencer has in flight with large writes.
const TARGET_BLOCKS: u64 = 2048;
/// However many accounts there are, one is topped up to so many, while there are some: two of the longest writes.
const LEAST_TARGET_BLOCKS: u64 = 64;
/// As space runs out, an account gets at most this part of what is left, so that others get some too.
const SHARE: u64 = 8;
/// Accounts beyond this get nothing: a link's ids come from the network.
const MAX_ACCOUNTS: usize = 1 << 16;
/// What an account may have had in flight when it ended: a sequencer has at most 2 MiB under way to a store.
const MOST_IN_FLIGHT_BLOCKS: u64 = 512;
/// What lingers does so for this long at least, and for twice as long at most: longer than a lease takes to lapse and a new
/// owner to come.
const LINGER: Duration = Duration::from_secs(8);
/// An account that lacks what it wants for so long is told that there is nothing, even if others may still give something
/// back. With the sequencer's own pauses a full pool answers within a second.
const PATIENCE: Duration = Duration::from_millis(500);

/// Who is granted space. Its number comes back for another sequencer of the same link, when that of before asks for nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountId {
    link: LinkId,
    sequencer: u64,
}

impl AccountId {
    /// Whose a request is that came by this link.
    #[must_use]
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
    /// What all accounts have left.
    granted: u64,
    /// What ended accounts had left: since the last turn, and since the one before.
    lingering: [u64; 2],
    /// When it grows older.
    turn_at: Time,
}

/// What one sequencer has left, and which one it is.
#[derive(Clone, Copy, Debug)]
struct Account {
    left: u32,
    volume: VolumeId,
    generation: Generation,
    /// Since when it has wanted more than there was, and when it last did.
    short: Option<(Time, Time)>,
}

impl Account {
    /// What may be in flight of what it was granted, when it ends.
    fn in_flight(&self) -> u64 {
        u64::from(self.left).min(MOST_IN_FLIGHT_BLOCKS)
    }
}

impl Credits {
    /// Blocks that are granted and not used, and those that linger.
    pub fn granted(&self) -> u64 {
        self.granted + self.lingering()
    }

    /// Blocks that linger.
    pub fn lingering(&self) -> u64 {
        self.lingering[0] + self.lingering[1]
    }

    /// Makes the account of the volume's sequencer of this generation, if it is new. A number comes back for another
    /// sequencer, which counts from zero: the account of the one before ends. Returns what may be in flight of its.
    #[must_use = "what is in flight lingers"]
    pub fn open(&mut self, account: AccountId, volume: VolumeId, generation: Generation) -> u64 {
        let new = Account {
            left: 0,
            volume,
            generation,
            short: None,
        };
        if let Some(known) = self.accounts.get_mut(&account) {
            if (known.volume, known.generation) == (volume, generation) {
                return 0;
            }
            let ended = std::mem::replace(known, new);
            self.ungrant(u64::from(ended.left));
            return ended.in_flight();
        }
        if self.accounts.len() >= MAX_ACCOUNTS {
            // Whoever has nothing left is let in again when it next asks.
            self.accounts.retain(|_, known| known.left > 0);
        }
        if self.accounts.len() < MAX_ACCOUNTS {
            self.accounts.insert(account, new);
        }
        0
    }

    /// A newer generation of these volumes is fenced: accounts of older ones end. Returns what may be in flight of theirs.
    #[must_use = "what is in flight lingers"]
    pub fn supersede(&mut self, volumes: &RangeInclusive<VolumeId>, generation: Generation) -> u64 {
        self.retain(|_, known| !volumes.contains(&known.volume) || known.generation >= generation)
    }

    /// The link is closed: its accounts end. Returns what may be in flight of theirs.
    #[must_use = "what is in flight lingers"]
    pub fn close(&mut self, link: LinkId) -> u64 {
        self.retain(|account, _| account.link != link)
    }

    fn retain(&mut self, stays: impl Fn(&AccountId, &Account) -> bool) -> u64 {
        let (granted, mut in_flight) = (&mut self.granted, 0);
        self.accounts.retain(|account, known| {
            let stays = stays(account, known);
            if !stays {
                assert!(
                    *granted >= u64::from(known.left),
                    "what is granted is the sum of the accounts"
                );
                *granted -= u64::from(known.left);
                in_flight += known.in_flight();
            }
            stays
        });
        in_flight
    }

    /// So many blocks linger from now on.
    pub fn linger(&mut self, now: Time, blocks: u64) {
        self.turn(now);
        if self.lingering() == 0 {
            self.turn_at = now.plus(LINGER);
        }
        self.lingering[0] += blocks;
    }

    /// What has lingered for long is free.
    pub fn turn(&mut self, now: Time) {
        if self.lingering() == 0 || now < self.turn_at {
            return;
        }
        let long = now >= self.turn_at.plus(LINGER);
        self.lingering = [0, if long { 0 } else { self.lingering[0] }];
        self.turn_at = now.plus(LINGER);
    }

    /// Takes `blocks` from the account; what it has not is taken from what lingers, and then from what is free besides all
    /// grants: `beyond` says how much that is. `false`: there is no space, and nothing was taken.
    pub fn take(&mut self, account: AccountId, blocks: u32, beyond: u64) -> bool {
        let mut none = 0;
        let lingering = self.lingering();
        let left = self
            .accounts
            .get_mut(&account)
            .map_or(&mut none, |known| &mut known.left);
        let covered = blocks.min(*left);
        let rest = u64::from(blocks - covered);
        if rest > beyond + lingering {
            return false;
        }
        *left -= covered;
        self.ungrant(u64::from(covered));
        self.take_lingering(rest.min(lingering));
        true
    }

    /// Takes `blocks` of a roll-forward, for which nobody was granted anything: it carries out what was granted to an ended
    /// account.
    pub fn take_rolled(&mut self, blocks: u32, beyond: u64) -> bool {
        let (blocks, lingering) = (u64::from(blocks), self.lingering());
        if blocks > beyond + lingering {
            return false;
        }
        self.take_lingering(blocks.min(lingering));
        true
    }

    /// A sum that is wrong would have the store grant what it has not: it is not gone on with.
    fn ungrant(&mut self, blocks: u64) {
        assert!(self.granted >= blocks, "what is granted is the sum of the accounts");
        self.granted -= blocks;
    }

    fn take_lingering(&mut self, blocks: u64) {
        let older = blocks.min(self.lingering[1]);
        self.lingering[1] -= older;
        self.lingering[0] -= blocks - older;
    }

    /// The account has so many blocks less, and nobody uses them: its owner gives them back, or sends again what was carried
    /// out already.
    /// Returns how many it had.
    pub fn give_back(&mut self, account: AccountId, blocks: u32) -> u32 {
        let Some(known) = self.accounts.get_mut(&account) else {
            return 0;
        };
        let given = blocks.min(known.left);
        known.left -= given;
        self.ungrant(u64::from(given));
        given
    }

    /// What the account paid for was refused after all: its owner counts it as unused. `false`: it has ended.
    pub fn refund(&mut self, account: AccountId, blocks: u32) -> bool {
        let Some(known) = self.accounts.get_mut(&account) else {
            return false;
        };
        known.left += blocks;
        self.granted += u64::from(blocks);
        true
    }

    /// Tops the account up out of `spare` blocks that nobody was granted; returns how many it got. One that `want`s more
    /// than its share gets it, if it is there: a write waits for it. An account that is closed gets nothing.
    pub fn grant(&mut self, account: AccountId, spare: u64, want: u32) -> u32 {
        // Half of all, divided by the accounts (and up to a half less: a shift instead of a division).
        let accounts = self.accounts.len().max(1).ilog2() + 1;
        let fair = ((spare + self.granted) >> accounts).clamp(LEAST_TARGET_BLOCKS, TARGET_BLOCKS);
        let Some(known) = self.accounts.get_mut(&account) else {
            return 0;
        };
        let left = u64::from(known.left);
        let wanted = u64::from(want).min(left + spare);
        let target = fair.min(left + spare / SHARE).max(wanted);
        let more = target.saturating_sub(left) as u32;
        if more > 0 {
            known.left += more;
            known.short = None;
            self.granted += u64::from(more);
        }
        more
    }

    /// Should the account's owner give up waiting for `want` blocks, having got `more` just now? Where nothing is on its way
    /// back (`returning`), and nobody else has anything that he may give back, at once; else after a while.
    pub fn is_full(&mut self, now: Time, account: AccountId, want: u32, more: u32, returning: bool) -> bool {
        let others = self.granted();
        let Some(known) = self.accounts.get_mut(&account) else {
            return want > 0;
        };
        if want == 0 || (more > 0 && known.left >= want) {
            known.short = None;
            return false;
        }
        // Who has not asked for so long has been told, and asks anew: there may be room soon.
        let goes_on = known.short.filter(|(_, last)| now.since(*last) < PATIENCE * 2);
        let since = goes_on.map_or(now, |(since, _)| since);
        known.short = Some((since, now));
        let others = others - u64::from(known.left);
        (!returning && others == 0) || now.since(since) >= PATIENCE
    }

    /// What must hold between events.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self) {
        let left: u64 = self.accounts.values().map(|known| u64::from(known.left)).sum();
        assert_eq!(left, self.granted, "what is granted is on the accounts (R7)");
        assert!(self.accounts.len() <= MAX_ACCOUNTS);
    }
}

#[cfg(test)]
mod tests;
