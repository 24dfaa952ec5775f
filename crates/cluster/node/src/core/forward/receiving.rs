//! What a core has received from other gateways by forwarding, and what it has carried out of each: a write is carried out once
//! while its owner lives, whatever links break (R9).

use super::wire::code;
use crate::slab::{Slab, Slot};
use amita_fabric::Link;
use amita_types::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// What has come by forwarding and is not answered, on one core; more is answered as busy.
const MAX_RECEIVED: usize = 64 << 10;

/// Where a forwarded request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) link: Link,
    pub(super) tag: u64,
    /// Where it is noted what became of it, if it writes and was taken on.
    pub(super) window: Option<WindowSlot>,
}

/// What was carried out of one core of another gateway's process, by the requests' tags, which only grow. It outlives links: what was
/// on one that broke is asked for again, in the order in which it was sent first, before anything new is.
#[derive(Debug)]
struct Window {
    session: u64,
    /// What stands above the count in that core's tags.
    base: u64,
    /// The newest that was taken on.
    newest: u64,
    /// How the newest ended, oldest first. Answers leave in this order, so those that a link has lost are the last of them; and it
    /// carries no more unanswered ones than this.
    ended: VecDeque<(u64, u8)>,
}

/// A place among the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowSlot(u32);

impl WindowSlot {
    fn new(at: usize) -> WindowSlot {
        WindowSlot(u32::try_from(at).expect("a window for each core of each gateway"))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is kept of each core of another gateway: no fewer than a link carries without an answer.
const WINDOW: usize = 512;
const _: () = assert!(WINDOW >= amita_fabric::limits::FORWARD_REQUESTS as usize);
/// The bits of a tag that count.
const COUNT_BITS: u64 = (1 << 40) - 1;

/// What an owner knows of a write that is forwarded to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has never taken it on. The place where its end is to be noted.
    New(WindowSlot),
    /// It is under way, and is answered by this link from now on.
    UnderWay,
    /// It has ended so.
    Ended(u8),
}

/// What a core has received from other gateways.
#[derive(Debug, Default)]
pub(in crate::core) struct Receiving {
    senders: Slab<Sender>,
    /// Incoming links by which something was forwarded.
    links: FxHashSet<Link>,
    /// Who is at the other end of incoming links, and where it is noted what was carried out for it.
    pub(super) peers: FxHashMap<Link, (NodeId, Option<WindowSlot>)>,
    windows: Vec<Window>,
}

impl Receiving {
    /// Something is forwarded by it.
    pub(super) fn note_link(&mut self, link: Link) {
        self.links.insert(link);
    }

    /// Does any gateway forward to us?
    pub(in crate::core) fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// All of them are dropped.
    pub(in crate::core) fn take_links(&mut self) -> Vec<Link> {
        self.links.drain().collect()
    }

    /// Takes in a request; `None`: there are too many. Its number is the tag that it has in this process.
    pub(super) fn put(&mut self, sender: Sender) -> Option<u64> {
        let has_room = self.senders.len() < MAX_RECEIVED;
        has_room.then(|| self.senders.put(sender).number())
    }

    pub(super) fn take(&mut self, tag: u64, code: u8) -> Option<Sender> {
        let sender = self.senders.take(Slot::of(tag)?)?;
        if let Some(window) = sender.window.and_then(|window| self.windows.get_mut(window.index())) {
            if window.ended.len() == WINDOW {
                window.ended.pop_front();
            }
            window.ended.push_back((sender.tag, code));
        }
        Some(sender)
    }

    /// Cores of gateways of which something is kept.
    #[cfg(test)]
    pub(in crate::core) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// What is known of a write that comes in by a link?
    pub(super) fn look_up(&mut self, link: Link, session: u64, tag: u64, lives: impl Fn(u64) -> bool) -> Known {
        let base = tag & !COUNT_BITS;
        let known = self.peers.get(&link).and_then(|(_, window)| *window);
        let fits = |window: &Window| window.session == session && window.base == base;
        let known = known.filter(|at| self.windows.get(at.index()).is_some_and(fits));
        let at = match known.or_else(|| self.windows.iter().position(fits).map(WindowSlot::new)) {
            Some(at) => at,
            None => self.make_window(session, base, lives),
        };
        if let Some((_, window)) = self.peers.get_mut(&link) {
            *window = Some(at);
        }
        let window = &self.windows[at.index()];
        if tag > window.newest {
            return Known::New(at);
        }
        if let Some((_, code)) = window.ended.iter().rev().find(|(ended, _)| *ended == tag) {
            return Known::Ended(*code);
        }
        let is_it = |sender: &&mut Sender| sender.window == Some(at) && sender.tag == tag;
        match self.senders.iter_mut().find(is_it) {
            Some(sender) => {
                sender.link = link;
                Known::UnderWay
            }
            // A core sends again what it has no answer to: never what has left the window.
            None => Known::Ended(code::LOST),
        }
    }

    /// A window of which nothing is known yet: in the place of a process that has ended, if nothing of it is under way.
    fn make_window(&mut self, session: u64, base: u64, lives: impl Fn(u64) -> bool) -> WindowSlot {
        let window = Window {
            session,
            base,
            newest: 0,
            ended: VecDeque::with_capacity(WINDOW),
        };
        let is_used = |at: WindowSlot| self.senders.iter().any(|sender| sender.window == Some(at));
        let is_free = |at: &usize| !lives(self.windows[*at].session) && !is_used(WindowSlot::new(*at));
        match (0..self.windows.len()).find(is_free) {
            Some(at) => {
                self.windows[at] = window;
                WindowSlot::new(at)
            }
            None => {
                self.windows.push(window);
                WindowSlot::new(self.windows.len() - 1)
            }
        }
    }

    /// A write is taken on.
    pub(super) fn take_on(&mut self, tag: u64, at: WindowSlot) {
        if let Some(sender) = Slot::of(tag).and_then(|slot| self.senders.get_mut(slot))
            && let Some(window) = self.windows.get_mut(at.index())
        {
            sender.window = Some(at);
            window.newest = sender.tag;
        }
    }

    /// Does the link still stand by which this came?
    pub(super) fn is_connected(&self, tag: u64) -> bool {
        let sender = Slot::of(tag).and_then(|slot| self.senders.get(slot));
        sender.is_some_and(|sender| self.links.contains(&sender.link))
    }

    pub(in crate::core) fn link_opened(&mut self, link: Link, peer: NodeId) {
        self.peers.insert(link, (peer, None));
    }

    pub(in crate::core) fn link_closed(&mut self, link: Link) {
        self.links.remove(&link);
        self.peers.remove(&link);
    }
}
