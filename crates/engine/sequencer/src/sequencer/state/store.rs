//! What is known of one of the volume's stores.

use crate::config::{BUSY_PATIENCE, Config, IDLE_PATIENCE};
use crate::faults::Fault;
use crate::sequencer::agenda::NEVER;
use crate::sequencer::store::News;
use crate::table::{GroupSlot, TaskSlot, WatchSlot};
use amita_reactor::Time;
use amita_types::message::MAX_PIECES;
use amita_types::{NodeId, RequestId, StoreId};
use std::time::Duration;

/// Credits that were not used for so long are given back, but for [`KEPT_BLOCKS`].
pub(in crate::sequencer) const IDLE: Duration = Duration::from_millis(200);
/// And those after so long.
const LONG_IDLE: Duration = Duration::from_secs(10);
/// One write's worth: the first write after a pause need not ask.
const KEPT_BLOCKS: u64 = MAX_PIECES as u64;
/// No node has this number: they are given out from 1 on.
const NOBODY: NodeId = NodeId(0);

/// One of the volume's stores.
#[derive(Debug)]
pub(in crate::sequencer) struct Store {
    pub id: StoreId,
    pub local: bool,
    /// Its number among the stores that the core watches.
    pub watch: WatchSlot,
    /// The group by which it was last asked for something.
    pub via: Option<GroupSlot>,
    /// In how many groups' records it is being brought up to date.
    pub behind_in: u32,
    /// It has durably adopted our generation, by some fence: no older owner changes anything there any more.
    pub adopted: bool,
    /// Surely dead, or silent for too long: groups that are touched go on without it. Cleared when it speaks.
    pub lost: bool,
    /// When it was found lost: the first one goes first.
    pub lost_at: Time,
    /// It has said that it cannot serve; reported once.
    pub unfit: bool,
    pub link: Link,
    pub owed: Owed,
    pub credits: Account,
    pub lease: Lease,
}

/// How it does on the link to it.
#[derive(Debug)]
pub(in crate::sequencer) struct Link {
    pub up: bool,
    /// Who is at its other end, or was at that of the last one.
    pub node: NodeId,
    /// It refuses everything until it is mounted anew; then it knows nothing of what was granted on this link.
    pub poisoned: bool,
    /// Its last answer was `Busy`.
    pub refusing: bool,
    /// It has done something on its present link.
    pub worked: bool,
}

/// What it owes, and since when.
#[derive(Debug)]
pub(in crate::sequencer) struct Owed {
    /// Answers to something sent or to be sent.
    pub awaited: u32,
    /// Of those, writes: their end may bring credits.
    pub writes: u32,
    /// Payload bytes of writes that it has not answered.
    pub bytes: u64,
    /// At the earliest, all of it: its link came up, or we stood still.
    pub since: Time,
    /// The last answer, or when there began to be something to answer.
    pub heard: Time,
    /// When the newest request was sent that it has answered, of those that a disk may be needed for.
    pub served: Time,
    /// Since when it has owed work without doing any, on whatever links; [`NEVER`]: it owes none.
    pub idle_since: Time,
    /// When it is looked for something that it owes for too long.
    pub look_at: Time,
    /// It owes something for too long, and has answered what it was asked later.
    pub stuck: bool,
    /// Stands in the list of those whose silence may matter ([`Silence`](crate::sequencer::silence::Silence)).
    pub listed: bool,
    /// In which round it was last found that openings wait for it.
    pub missed: u64,
}

/// What it has granted (R7), as it counts it.
#[derive(Debug)]
pub(in crate::sequencer) struct Account {
    /// Blocks that may be written before it grants more.
    pub blocks: u64,
    /// Writes of groups that it has left, and their blocks: whether they count, its answers tell.
    pub in_doubt: Vec<(RequestId, u64)>,
    /// When it was last charged: credits that are not used for a while are given back.
    pub charged_at: Time,
    /// The request about credits that is under way.
    pub request: Option<TaskSlot>,
    /// The last one.
    pub asked: Ask,
    /// The last one whose answer brought less than was wanted.
    pub short: Option<Ask>,
    /// The last one that was told that the store is full, if it has not granted as much as was wanted since.
    pub full: Option<Ask>,
}

/// A request for credits. What its answer says of the store's space holds for those who had come before it: who comes
/// later asks for himself, because he may have made room, and been told.
#[derive(Clone, Copy, Debug)]
pub(in crate::sequencer) struct Ask {
    /// When it was sent.
    pub at: Time,
    /// So many blocks were wanted. Fewer may be there.
    pub want: u64,
}

/// For how long it lets no newer generation in (R4).
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Lease {
    pub until: Time,
    /// The length of the last one, as far as it counts.
    pub length: Duration,
    /// When the newest request was sent that it has answered with a lease.
    pub renewed: Time,
    /// The renewal that is under way.
    pub request: Option<TaskSlot>,
    /// When the last one was sent.
    pub requested_at: Time,
}

impl Store {
    /// A store of which nothing has been heard.
    pub fn new(id: StoreId, local: bool, watch: WatchSlot, now: Time, look_at: Time) -> Store {
        Store {
            id,
            local,
            watch,
            via: None,
            behind_in: 0,
            adopted: false,
            lost: false,
            lost_at: now,
            unfit: false,
            link: Link::to(NOBODY),
            owed: Owed {
                awaited: 0,
                writes: 0,
                bytes: 0,
                since: now,
                heard: now,
                served: Time(0),
                idle_since: NEVER,
                look_at,
                stuck: false,
                listed: false,
                missed: 0,
            },
            credits: Account {
                blocks: 0,
                in_doubt: Vec::new(),
                charged_at: now,
                request: None,
                asked: Ask { at: Time(0), want: 0 },
                short: None,
                full: None,
            },
            lease: Lease::default(),
        }
    }

    /// There is a link, on which nothing was sent yet.
    pub fn link_up(&mut self, now: Time, node: NodeId) {
        self.link = Link {
            up: true,
            ..Link::to(node)
        };
        self.lost = false;
        self.owed.stuck = false;
        self.owed.heard = now;
        self.owed.since = now;
    }

    /// The link has ended, and with it what was granted there.
    pub fn link_ended(&mut self, now: Time) {
        self.link.up = false;
        self.credits.reset();
        if self.owed.awaited == 0 {
            self.owed.heard = now;
        }
    }

    /// It is lost, since now if it was not.
    pub fn lose(&mut self, now: Time) {
        if !self.lost {
            self.lost = true;
            self.lost_at = now;
        }
    }

    /// It has said something. `memory_is_life`: that the process lives is enough.
    pub fn heard(&mut self, now: Time, news: News, memory_is_life: bool) {
        self.link.refusing = news == News::Busy;
        match news {
            News::Works(sent_at) => {
                if std::mem::take(&mut self.link.poisoned) {
                    // It was mounted anew. Its accounts begin at zero, as on a new link (R7), and with this answer.
                    self.credits.reset();
                    self.unfit = false;
                }
                self.owed.heard = now;
                self.owed.served = self.owed.served.max(sent_at);
                self.link.worked = true;
                self.lost &= self.owed.stuck;
            }
            News::Speaks if memory_is_life => {
                self.owed.heard = now;
                self.lost = false;
            }
            News::Busy | News::Speaks => {}
        }
    }

    /// One that was lost or stuck, and has answered all that it owed, is as good as any other: nothing else would come
    /// that says so. (What comes out of its memory says little, but nothing that needs its disk is owed. Not one that
    /// is busy or being mounted.) Is it one?
    pub fn answered_all(&mut self) -> bool {
        let link = &self.link;
        let ails = self.lost || self.owed.stuck;
        let recovers = self.owed.awaited == 0 && link.up && ails && !link.poisoned && !link.refusing;
        if recovers {
            (self.owed.stuck, self.lost) = (false, false);
        }
        recovers
    }

    /// One answer more is awaited; the first one after a while begins to be waited for now.
    pub fn expect(&mut self, now: Time, timeout: Duration, is_work: bool, write_bytes: Option<u64>) {
        if self.owed.awaited == 0 {
            if self.link.up && !self.link.refusing {
                self.owed.heard = now;
            }
            self.owed.stuck = false;
            self.owed.look_at = now.plus(timeout);
        }
        if is_work && self.owed.idle_since == NEVER {
            self.owed.idle_since = now;
        }
        self.owed.awaited += 1;
        if let Some(bytes) = write_bytes {
            self.owed.writes += 1;
            self.owed.bytes += bytes;
        }
    }

    /// For how long it may do nothing.
    pub fn patience(&self, config: &Config) -> Duration {
        if self.link.refusing && self.link.worked && !config.faults.has(Fault::BusyIsSilence) {
            // It is not being mounted: it has too much to do, and others get on.
            config.store_timeout * BUSY_PATIENCE
        } else {
            config.store_timeout
        }
    }

    /// For how long it may owe work and do none, however often its link comes back.
    pub fn idle_patience(&self, config: &Config) -> Duration {
        self.patience(config) * IDLE_PATIENCE
    }

    /// Has it said or done nothing for too long, or has it done what it was asked later?
    pub fn is_silent(&self, now: Time, config: &Config) -> bool {
        let owed = &self.owed;
        let quiet = now.since(owed.heard) >= self.patience(config);
        // Its link ends again and again before it has done anything.
        let idle = owed.idle_since != NEVER && now.since(owed.idle_since) >= self.idle_patience(config);
        quiet || idle || owed.stuck
    }
}

impl Link {
    /// One that is not up.
    fn to(node: NodeId) -> Link {
        Link {
            up: false,
            node,
            poisoned: false,
            refusing: false,
            worked: false,
        }
    }
}

impl Owed {
    /// We stood still for so long: it is not blamed for that time.
    pub fn excuse(&mut self, now: Time, late: Duration) {
        self.heard = self.heard.plus(late).min(now);
        self.since = now;
        if self.idle_since != NEVER {
            self.idle_since = self.idle_since.plus(late).min(now);
        }
    }

    /// One answer less is awaited.
    pub fn settle(&mut self) {
        assert!(self.awaited > 0, "as many answers are owed as are awaited");
        self.awaited -= 1;
        if self.awaited == 0 {
            self.idle_since = NEVER;
        }
    }
}

impl Account {
    /// Another link, or another life of the store: it begins at zero.
    pub fn reset(&mut self) {
        self.blocks = 0;
        self.forget_words();
        self.in_doubt.clear();
    }

    /// What the store has said of its space holds no longer: it is another one, or has room again.
    pub fn forget_words(&mut self) {
        (self.short, self.full) = (None, None);
    }

    /// Takes blocks, as far as there are so many; how many?
    pub fn charge(&mut self, now: Time, blocks: u64) -> u64 {
        let taken = blocks.min(self.blocks);
        self.blocks -= taken;
        self.charged_at = now;
        taken
    }

    /// When they have lain idle for so long that some are given back, and how many; never, where there are none too
    /// many.
    pub fn idle_until(&self) -> (Time, u64) {
        if self.request.is_some() || self.blocks == 0 {
            return (NEVER, 0);
        }
        match self.blocks.checked_sub(KEPT_BLOCKS) {
            Some(more) if more > 0 => (self.charged_at.plus(IDLE), more),
            _ => (self.charged_at.plus(LONG_IDLE), self.blocks),
        }
    }

    /// A request is sent that wants, or gives back, so many blocks; none is under way.
    pub fn ask(&mut self, now: Time, slot: TaskSlot, want: u64, back: u64) {
        assert!(
            self.request.is_none() && back <= self.blocks,
            "only what there is, and once"
        );
        self.blocks -= back;
        self.request = Some(slot);
        self.asked = Ask { at: now, want };
        if want > 0 {
            // What it brings is for a write that waits, perhaps for another store, too: not idle from the first moment.
            self.charged_at = now;
        }
    }

    /// The last request was answered, and what the answer brings has been counted.
    pub fn answered(&mut self, full: bool) {
        if self.blocks < self.asked.want {
            self.short = Some(self.asked);
        }
        if full {
            self.full = Some(self.asked);
        } else if self.full.is_some_and(|full| self.blocks >= full.want) {
            self.full = None;
        }
    }

    /// The answer to what was in doubt: the blocks that are there again, where it was refused.
    pub fn answered_late(&mut self, id: RequestId, refused: bool) -> bool {
        let Some(at) = self.in_doubt.iter().position(|&(of, _)| of == id) else {
            return false;
        };
        let (_, blocks) = self.in_doubt.swap_remove(at);
        if refused {
            self.blocks += blocks;
        }
        refused
    }
}

impl Lease {
    /// It was granted for so long, by the answer to what was sent then.
    pub fn grant(&mut self, sent_at: Time, length: Duration) {
        self.length = length;
        self.renewed = self.renewed.max(sent_at);
        self.until = self.until.max(sent_at.plus(length));
    }

    /// Is it half over, or gone?
    pub fn ends_soon(&self, now: Time) -> bool {
        self.until < now.plus(self.length / 2) || self.until <= now
    }
}
