//! Sequence numbers: of commands (4.2.2.1), which arrive once each and in order, and of statuses (4.2.2.2).
//!
//! A session has one connection, and TCP keeps what it is given in order, so that a number is missing only where the initiator has left
//! one out: it may say later that nothing will come of it (ABORT TASK, 11.5.5). What came behind it waits until then.

use crate::wire::{Header, Taken, is_before};
use std::collections::VecDeque;

/// PDUs that wait for a number before theirs.
const MAX_HELD: usize = 16;
/// Bytes of data that come with them.
const MAX_HELD_BYTES: usize = 64 << 10;

/// What becomes of a PDU by its CmdSN.
#[derive(Debug)]
pub(super) enum Turn {
    /// It is its turn.
    Now(Taken),
    /// It waits, or is one that came before, or one that may not come yet: nobody is told (4.2.2.1).
    No,
    /// More waits than may.
    TooMuch,
}

/// The numbers of a session.
#[derive(Debug)]
pub(super) struct Numbers {
    stat_sn: u32,
    exp_cmd_sn: u32,
    /// The last that the initiator was told; it never becomes less.
    max_cmd_sn: u32,
    /// How many commands may be under way.
    window: u32,
    /// How many are, of those that count.
    under_way: u32,
    /// PDUs that wait, in order; nothing: its number is not missed any more.
    held: VecDeque<(u32, Option<Taken>)>,
    held_bytes: usize,
}

impl Numbers {
    pub fn new(cmd_sn: u32, stat_sn: u32, window: u16) -> Numbers {
        let window = u32::from(window);
        Numbers {
            stat_sn,
            exp_cmd_sn: cmd_sn,
            max_cmd_sn: cmd_sn.wrapping_add(window).wrapping_sub(1),
            window,
            under_way: 0,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// A command has begun that counts.
    pub fn begin(&mut self) {
        self.under_way += 1;
    }

    /// It has ended.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The StatSN that is next.
    pub fn next_status(&self) -> u32 {
        self.stat_sn
    }

    /// Puts the numbers into a header that has a status, or of which the initiator takes notice as if it had.
    pub fn stamp(&mut self, header: Header) -> Header {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        self.stamp_window(header.with_u32(24, stat_sn))
    }

    /// The same for one without: StatSN is the next one's (in an R2T and a ping: 11.8, 11.19.2), or is not said at all (in Data-In: 11.7).
    pub fn stamp_quietly(&mut self, header: Header, says_next: bool) -> Header {
        let header = match says_next {
            true => header.with_u32(24, self.stat_sn),
            false => header,
        };
        self.stamp_window(header)
    }

    fn stamp_window(&mut self, header: Header) -> Header {
        let free = self.window.saturating_sub(self.under_way);
        let most = self.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if is_before(self.max_cmd_sn, most) {
            self.max_cmd_sn = most;
        }
        header.with_u32(28, self.exp_cmd_sn).with_u32(32, self.max_cmd_sn)
    }

    /// A PDU has come that has a CmdSN, and is not immediate.
    pub fn arrive(&mut self, taken: Taken) -> Turn {
        let number = taken.header.cmd_sn();
        // A window that is shut ends before the number that is expected.
        if is_before(number, self.exp_cmd_sn) || is_before(self.max_cmd_sn, number) {
            return Turn::No;
        }
        if number == self.exp_cmd_sn {
            self.exp_cmd_sn = number.wrapping_add(1);
            return Turn::Now(taken);
        }
        let bytes = taken.data.as_ref().map_or(0, |data| data.len());
        let is_room = self.held.len() < MAX_HELD && self.held_bytes + bytes <= MAX_HELD_BYTES;
        if !is_room {
            return Turn::TooMuch;
        }
        if self.insert(number, Some(taken)) {
            self.held_bytes += bytes;
        }
        Turn::No
    }

    /// Keeps it in its place; false when there is one of that number.
    fn insert(&mut self, number: u32, taken: Option<Taken>) -> bool {
        let place = self.held.iter().position(|(known, _)| !is_before(*known, number));
        match place {
            Some(place) if self.held[place].0 == number => return false,
            Some(place) => self.held.insert(place, (number, taken)),
            None => self.held.push_back((number, taken)),
        }
        true
    }

    /// The next PDU that waited and whose turn it is now.
    pub fn next_held(&mut self) -> Option<Taken> {
        loop {
            let expected = self.exp_cmd_sn;
            let (_, taken) = self.held.pop_front_if(|(number, _)| *number == expected)?;
            self.exp_cmd_sn = expected.wrapping_add(1);
            if let Some(taken) = taken {
                self.held_bytes -= taken.data.as_ref().map_or(0, |data| data.len());
                return Some(taken);
            }
        }
    }

    /// Of what waits, such PDUs with numbers before that one are not wanted any more: their tasks were ended before they began.
    pub fn discard(&mut self, before: u32, is_meant: impl Fn(&Header) -> bool) {
        for (number, taken) in &mut self.held {
            let meant = taken.take_if(|taken| is_before(*number, before) && is_meant(&taken.header));
            self.held_bytes -= meant.and_then(|taken| taken.data).map_or(0, |data| data.len());
        }
    }

    /// Nothing comes with that number, or what came is not wanted any more (11.5.5): is it one that was waited for, before that of
    /// who says so?
    pub fn plug(&mut self, number: u32, teller: u32) -> bool {
        if is_before(number, self.exp_cmd_sn) || !is_before(number, teller) || is_before(self.max_cmd_sn, number) {
            return false;
        }
        if number == self.exp_cmd_sn {
            self.exp_cmd_sn = number.wrapping_add(1);
            return true;
        }
        if let Some(place) = self.held.iter().position(|(known, _)| *known == number) {
            if let Some(taken) = self.held[place].1.take() {
                self.held_bytes -= taken.data.as_ref().map_or(0, |data| data.len());
            }
            return true;
        }
        self.held.len() < MAX_HELD && self.insert(number, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_reactor::Slice;
    use proptest::prelude::*;

    fn pdu(number: u32) -> Taken {
        Taken {
            header: Header::new(1, 0).with_u32(24, number),
            ahs: Slice::default(),
            data: Some(Slice::copy_from(&[0; 100])),
        }
    }

    fn now(turn: Turn) -> Option<u32> {
        match turn {
            Turn::Now(taken) => Some(taken.header.cmd_sn()),
            Turn::No => None,
            Turn::TooMuch => panic!("too much"),
        }
    }

    fn window(numbers: &mut Numbers) -> (u32, u32) {
        let header = numbers.stamp_quietly(Header::default(), false);
        (header.u32_at(28), header.u32_at(32))
    }

    #[test]
    fn in_order() {
        let mut numbers = Numbers::new(u32::MAX, 1, 4);
        assert_eq!(window(&mut numbers), (u32::MAX, 2));
        assert_eq!(now(numbers.arrive(pdu(u32::MAX))), Some(u32::MAX));
        numbers.begin();
        // A command that is under way takes its place of the window.
        assert_eq!(window(&mut numbers), (0, 2));
        assert_eq!(now(numbers.arrive(pdu(u32::MAX))), None, "it came before");
        assert_eq!(now(numbers.arrive(pdu(3))), None, "beyond the window");
        assert_eq!(window(&mut numbers), (0, 2));
        numbers.end();
        assert_eq!(window(&mut numbers), (0, 3));
    }

    #[test]
    fn a_window_that_is_shut() {
        let mut numbers = Numbers::new(10, 1, 2);
        for number in [10, 11] {
            assert_eq!(now(numbers.arrive(pdu(number))), Some(number));
            numbers.begin();
        }
        assert_eq!(window(&mut numbers), (12, 11));
        assert_eq!(
            now(numbers.arrive(pdu(12))),
            None,
            "it is expected, and may not come yet"
        );
        numbers.end();
        assert_eq!(now(numbers.arrive(pdu(12))), None, "the initiator has not been told");
        assert_eq!(window(&mut numbers), (12, 12));
        assert_eq!(now(numbers.arrive(pdu(12))), Some(12));
    }

    #[test]
    fn what_came_too_early_waits() {
        let mut numbers = Numbers::new(10, 1, 8);
        assert_eq!(now(numbers.arrive(pdu(12))), None);
        assert_eq!(now(numbers.arrive(pdu(11))), None);
        assert_eq!(now(numbers.arrive(pdu(11))), None, "twice");
        assert!(numbers.next_held().is_none());
        assert_eq!(now(numbers.arrive(pdu(10))), Some(10));
        let held: Vec<u32> = std::iter::from_fn(|| numbers.next_held())
            .map(|taken| taken.header.cmd_sn())
            .collect();
        assert_eq!((held, numbers.held_bytes, numbers.exp_cmd_sn), (vec![11, 12], 0, 13));
    }

    #[test]
    fn a_number_that_nothing_comes_with() {
        let mut numbers = Numbers::new(10, 1, 8);
        assert_eq!(now(numbers.arrive(pdu(11))), None);
        assert!(!numbers.plug(9, 12), "it was there");
        assert!(!numbers.plug(12, 12), "not before who says so");
        assert!(numbers.plug(10, 12));
        assert_eq!(numbers.next_held().map(|taken| taken.header.cmd_sn()), Some(11));
        assert!(numbers.plug(13, 14));
        assert_eq!(now(numbers.arrive(pdu(12))), Some(12));
        assert!(numbers.next_held().is_none());
        assert_eq!(numbers.exp_cmd_sn, 14);
    }

    #[test]
    fn what_waits_and_is_not_wanted_any_more() {
        let start = u32::MAX - 1;
        let number = |offset| start.wrapping_add(offset);
        let mut numbers = Numbers::new(start, 1, 8);
        for offset in [1, 2, 3, 4] {
            let taken = pdu(number(offset));
            let header = taken.header.with_task_tag(offset);
            assert_eq!(now(numbers.arrive(Taken { header, ..taken })), None);
        }
        numbers.discard(number(4), |header| header.task_tag() != 2);
        assert_eq!(numbers.held_bytes, 200);
        assert_eq!(now(numbers.arrive(pdu(start))), Some(start));
        let held: Vec<u32> = std::iter::from_fn(|| numbers.next_held())
            .map(|taken| taken.header.task_tag())
            .collect();
        assert_eq!(
            (held, numbers.held_bytes, numbers.exp_cmd_sn),
            (vec![2, 4], 0, number(5))
        );
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut numbers = Numbers::new(0, 1, 1000);
        let turns = (1..100).map(|number| numbers.arrive(pdu(number)));
        let held = turns.take_while(|turn| matches!(turn, Turn::No)).count();
        assert_eq!(held, MAX_HELD);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// In whatever order they come, they go in theirs, each once.
        #[test]
        fn each_once_and_in_order(order in prop::collection::vec(0u32..12, 0..60), start: u32) {
            let mut numbers = Numbers::new(start, 1, 200);
            let mut seen = Vec::new();
            for offset in order {
                if let Turn::Now(taken) = numbers.arrive(pdu(start.wrapping_add(offset))) {
                    seen.push(taken.header.cmd_sn());
                    seen.extend(std::iter::from_fn(|| numbers.next_held()).map(|taken| taken.header.cmd_sn()));
                }
            }
            let expected: Vec<u32> = (0..seen.len() as u32).map(|offset| start.wrapping_add(offset)).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
