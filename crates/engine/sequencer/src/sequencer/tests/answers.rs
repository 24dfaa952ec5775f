use super::rig::{Rig, server, store};
use crate::{Fault, Faults};
use amita_reactor::Slice;
use amita_types::message::{Answer, AnswerBody, Refusal, Request, SettleRequest, SettledAnswer};

impl Rig {
    /// A node answers in the name of a store.
    fn pretend(&mut self, as_store: u128, by: u128, request: &Request, result: Result<AnswerBody, Refusal>) {
        let answer = Answer {
            trace: None,
            id: request.id,
            store: store(as_store),
            lease_ms: 60_000,
            credit_blocks: 1_000_000,
            waited: Default::default(),
            result,
        };
        self.sequencer
            .answer(self.now, server(store(by)), answer, Slice::default());
        self.collect();
    }

    fn foreign(&self) -> u64 {
        self.sequencer.status().counters.foreign_answers
    }
}

#[test]
fn nobody_writes_in_another_stores_name() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[7; 4096]);
    let all: Vec<Request> = (1..=3).flat_map(|number| rig.writes(number)).collect();
    rig.done(&all[..1]);
    // All members are asked under one number: the third one's node answers for the second store, too.
    rig.pretend(2, 3, &all[2], Ok(AnswerBody::Done));
    rig.done(&all[2..]);
    assert_eq!((rig.result(io), rig.foreign()), (None, 1), "one store has not answered");
    rig.done(&all[1..2]);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn nobody_refuses_in_another_stores_name() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[7; 4096]);
    let all: Vec<Request> = (1..=3).flat_map(|number| rig.writes(number)).collect();
    for refusal in [Refusal::NoSpace, Refusal::Poisoned, Refusal::NoSuchStore] {
        rig.pretend(2, 3, &all[2], Err(refusal));
    }
    assert!(rig.calls.is_empty(), "nobody is evicted");
    rig.done(&all);
    assert_eq!((rig.result(io), rig.foreign()), (Some(Ok(())), 3));
}

#[test]
fn nobody_grants_what_is_another_stores() {
    let mut rig = Rig::open(2, 2);
    // Nothing is left of what the stores have granted, and they grant no more.
    rig.credit = 0;
    rig.takes_back = false;
    let (mut at, mut asked) = (0, Vec::new());
    let io = loop {
        let io = rig.write(at % 32 * 4096, &[1; 4096]);
        at += 1;
        assert!(at < 5000, "it runs out");
        // They are asked for more before nothing is left.
        asked.extend(rig.settles());
        let written: Vec<Request> = (1..=2).flat_map(|number| rig.writes(number)).collect();
        if written.is_empty() {
            break io;
        }
        rig.done(&written);
    };
    assert!(asked.iter().all(|request| matches!(
        request.body,
        amita_types::message::RequestBody::Settle(SettleRequest { want: 1.., .. })
    )));
    let settled = || Ok(AnswerBody::Settled(SettledAnswer { full: false }));
    for request in &asked {
        let of = request.store.0;
        rig.pretend(of, 3 - of, request, settled());
    }
    assert_eq!(
        (rig.writes(1).len(), rig.writes(2).len()),
        (0, 0),
        "no store has granted anything"
    );
    assert_eq!((rig.result(io), rig.foreign()), (None, asked.len() as u64));
    rig.credit = 1000;
    for request in &asked {
        rig.answer(request, settled(), Slice::default());
    }
    assert_eq!((rig.writes(1).len(), rig.writes(2).len()), (1, 1));
}

#[test]
fn without_the_rule_another_nodes_word_ends_a_write() {
    let mut rig = Rig::with(
        3,
        2,
        1,
        crate::Config {
            faults: Faults::NONE.with(Fault::AnyAnswer),
            ..crate::Config::default()
        },
    );
    rig.open_chunk();
    let io = rig.write(0, &[7; 4096]);
    let all: Vec<Request> = (1..=3).flat_map(|number| rig.writes(number)).collect();
    rig.done(&all[..1]);
    rig.pretend(2, 3, &all[2], Ok(AnswerBody::Done));
    rig.done(&all[2..]);
    assert_eq!(rig.result(io), Some(Ok(())), "the second store has not answered");
}

#[test]
fn a_store_that_has_moved_answers_from_where_it_is() {
    let mut rig = Rig::open(2, 2);
    let io = rig.write(0, &[7; 4096]);
    let (one, before) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    // Its disk is in another machine now: all that was not answered is sent there again.
    rig.sequencer.store_up(rig.now, store(2), server(store(9)));
    rig.collect();
    rig.done(&before);
    assert_eq!((rig.result(io), rig.foreign()), (None, 1), "the machine where it was");
    let fences = rig.fences();
    rig.pretend(2, 9, &fences[0], Ok(AnswerBody::Fenced));
    let again = rig.writes(2);
    rig.pretend(2, 9, &again[0], Ok(AnswerBody::Done));
    assert_eq!(rig.result(io), Some(Ok(())));
}
