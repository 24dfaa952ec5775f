//! The memo on a real store: what was kept is found by whoever looks at the disk, after any power cut.

use crate::common::{Disk, Rig, Rng, STORE, image, params};
use amita_reactor::{Pool, Time};
use amita_store::memo::{Content, MemoEvent as Word, Writer};
use amita_store::offline::{CheckOptions, MemoCopy, Offline, check};
use amita_store::{Config, LinkId, State};
use std::time::Duration;

const LINK: LinkId = LinkId(u64::MAX);
const SIZE: u64 = 4 << 20;

/// A store and the writer of its memo.
struct Host {
    rig: Rig,
    writer: Writer,
}

impl Host {
    fn mounted(image: Vec<u8>, volatile: bool) -> Host {
        let disk = Disk::new(image, volatile);
        let mut rig = Rig::open(disk, Config::default(), Time(1), 1, Pool::heap());
        rig.run();
        assert_eq!(*rig.store.state(), State::Serving);
        Host {
            rig,
            writer: Writer::new(STORE),
        }
    }

    /// One step: asks, or takes what was answered, or lets an operation end, or time pass. False: nothing is left.
    fn step(&mut self) -> bool {
        if let Some(at) = self.rig.told.iter().position(|told| told.link == LINK) {
            let told = self.rig.told.remove(at);
            self.writer.answer(self.rig.now, told.answer, &told.payload);
            if self.writer.is_idle() {
                self.rig.store.link_closed(self.rig.now, LINK);
            }
            return true;
        }
        if let Some((request, payload)) = self.writer.next(self.rig.now) {
            self.rig.send(LINK, request, payload);
            self.rig.store.end_pass(self.rig.now);
            self.rig.pump();
            return true;
        }
        if !self.rig.flights.is_empty() {
            self.rig.complete(0);
            self.rig.store.end_pass(self.rig.now);
            self.rig.pump();
            return true;
        }
        let due = [self.rig.store.deadline(), self.writer.deadline()]
            .into_iter()
            .flatten()
            .min();
        match due {
            Some(at) if at > self.rig.now && at < Time(1).plus(Duration::from_secs(3600)) => {
                self.rig.now = at;
                self.rig.store.tick(at);
                self.rig.pump();
                true
            }
            _ => !self.rig.told.is_empty(),
        }
    }

    /// Until the writer says something.
    fn until_told(&mut self) -> Word {
        for _ in 0..100_000 {
            if let Some(word) = self.writer.told().next() {
                return word;
            }
            assert!(self.step(), "the writer never says anything");
        }
        panic!("the writer never ends");
    }

    fn keep(&mut self, revision: u64, bytes: &[u8]) {
        self.writer.keep(Content::new(1, revision, bytes).expect("it fits"));
        loop {
            match self.until_told() {
                Word::Written {
                    life: 1,
                    revision: done,
                } if done == revision => return,
                Word::Found(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn offline(image: &[u8]) -> Option<MemoCopy> {
    let offline = Offline::open(image, Config::default()).expect("it mounts");
    offline.memo()
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    Rng(seed).bytes(count)
}

#[test]
fn what_was_kept_is_found_by_the_next_life_and_by_whoever_looks() {
    let mut host = Host::mounted(image(&params(SIZE)), false);
    host.writer.look();
    assert!(matches!(host.until_told(), Word::Found(found) if found.newest.is_none()));
    for (revision, count) in [(10, 100), (11, 4096), (12, 300_000), (13, 1)] {
        host.keep(revision, &bytes(revision, count));
        let copy = offline(&host.rig.disk.view).expect("a copy");
        assert_eq!((copy.head.life, copy.head.revision), (1, revision));
        assert!(copy.content == bytes(revision, count), "revision {revision}");
    }
    // What was granted to a link that has ended lingers for a while: never more than may have been in flight.
    assert!(host.rig.store.status().credits_granted <= 512, "given back");
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(&&host.rig.disk.view[..], &Config::default(), &options, &mut |_| {});
    assert!(report.is_clean(), "{report:?}");

    let mut next = Host::mounted(host.rig.disk.view.clone(), false);
    next.writer.look();
    let Word::Found(found) = next.until_told() else {
        panic!("first it looks")
    };
    assert_eq!(found.newest.map(|head| (head.revision, head.number)), Some((13, 4)));
    next.keep(14, b"the next life goes on");
    assert_eq!(offline(&next.rig.disk.view).map(|copy| copy.head.number), Some(5));
    assert!(next.rig.store.known_groups().is_empty() && next.rig.store.known_volumes().is_empty());
}

/// The power fails after every step of writing a copy over an older one, with random fates of what was not durable.
#[test]
fn after_any_power_cut_the_old_copy_or_the_new_one_is_whole() {
    let (old, new) = (bytes(1, 200_000), bytes(2, 150_000));
    let mut rng = Rng(77);
    let (mut olds, mut news) = (0, 0);
    for volatile in [false, true] {
        let mut host = Host::mounted(image(&params(SIZE)), volatile);
        host.keep(1, b"older still");
        host.keep(2, &old);
        host.writer.keep(Content::new(1, 3, &new).expect("it fits"));
        let mut written = false;
        while !written {
            assert!(host.step());
            written = host
                .writer
                .told()
                .any(|word| matches!(word, Word::Written { revision: 3, .. }));
            for _ in 0..4 {
                let left = host.rig.cut(&mut rng);
                let copy = offline(&left).expect("a copy");
                match copy.head.revision {
                    2 if !written => {
                        assert!(copy.content == old);
                        olds += 1;
                    }
                    3 => {
                        assert!(copy.content == new);
                        news += 1;
                    }
                    other => panic!("revision {other}, the new one said to be durable: {written}"),
                }
                // The next life finds the same, and its first copy does not cost it.
                let mut next = Host::mounted(left, volatile);
                next.writer.look();
                next.until_told();
                next.writer.keep(Content::new(1, 4, &new).expect("it fits"));
                for _ in 0..rng.below(40) {
                    next.step();
                }
                let after = offline(&next.rig.cut(&mut rng)).expect("a copy");
                assert!(after.head.revision >= copy.head.revision, "a copy was lost");
            }
        }
    }
    assert!(olds > 20 && news > 2, "{olds} old and {news} new copies were found");
}

#[test]
fn a_store_without_space_says_so_once_and_keeps_the_old_copy() {
    let mut host = Host::mounted(image(&params(1 << 20)), false);
    host.keep(1, b"small");
    host.writer
        .keep(Content::new(1, 2, &bytes(3, 4 << 20)).expect("it fits a place"));
    let word = host.until_told();
    assert!(matches!(word, Word::Refused(_)), "{word:?}");
    for _ in 0..200 {
        host.step();
    }
    assert_eq!(host.writer.told().next(), None, "said once");
    assert_eq!(offline(&host.rig.disk.view).expect("a copy").content, b"small");
    assert!(Content::new(1, 1, &[]).is_none(), "nothing is no content");
}
