use super::rig::{CHUNK_BYTES, Rig, old, store};
use crate::io::{StopReason, Warning};
use crate::{Config, MAX_EVICTION_GROUPS};
use amita_metadata::{Compare, Op};
use amita_types::io::IoError;
use amita_types::message::{AnswerBody, Refusal, SettledAnswer};
use amita_types::{ChunkId, ChunkIndex, Epoch, Generation, GroupIndex, VolumeId};
use std::time::Duration;

#[test]
fn a_lost_store_is_evicted_and_then_the_write_is_acknowledged() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[1; 4096]);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.writes(3).len(), 1);
    rig.lost(3);
    let (_, call) = rig.calls[0].clone();
    // R2: the volume's record is compared too.
    assert_eq!(call.compares.len(), 2);
    assert!(
        call.compares
            .iter()
            .any(|compare| matches!(compare, Compare::ModRevision { key, .. } if key == "/amita/volumes/v"))
    );
    assert_eq!(call.otherwise.len(), 2);
    assert_eq!(rig.result(io), None, "not before the epoch has moved");
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    let group = rig.group(0);
    assert_eq!(
        (group.epoch, group.in_sync.len(), group.members.len()),
        (Epoch(2), 2, 3)
    );
    assert!(
        rig.warnings
            .iter()
            .any(|warning| matches!(warning, Warning::Evicted { .. }))
    );
    // Later writes carry the new epoch, behind its fence.
    let io = rig.write(0, &[1; 4096]);
    assert!(rig.writes(1).is_empty());
    rig.answer_fences();
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(one[0].scope.epoch, Epoch(2));
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(rig.writes(3).is_empty());
}

#[test]
fn a_silent_store_is_evicted_after_its_time() {
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(100);
    let io = rig.write(0, &[1; 4096]);
    for request in rig.settles() {
        rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
    }
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.pass_ms(1999);
    assert!(rig.calls.is_empty());
    rig.pass_ms(2);
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
}

#[test]
fn a_frozen_sequencer_blames_nobody() {
    let mut rig = Rig::open(3, 1);
    rig.write(0, &[1; 4096]);
    // Ten seconds without a tick: the process stood still.
    rig.now = rig.now.plus(std::time::Duration::from_secs(10));
    rig.sequencer.tick(rig.now);
    rig.collect();
    assert!(rig.calls.is_empty());
    for number in 1..=3 {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.pass_ms(5000);
    assert!(rig.calls.is_empty());
}

#[test]
fn never_below_the_least_copies() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[1; 4096]);
    let one = rig.writes(1);
    rig.done(&one);
    rig.down(2);
    rig.lost(2);
    rig.do_call();
    rig.answer_fences();
    rig.down(3);
    rig.lost(3);
    rig.pass_ms(10_000);
    assert!(rig.calls.is_empty());
    assert_eq!(rig.result(io), None);
    assert_eq!(rig.group(0).in_sync, [store(1), store(3)]);
    let missed = |warning: &&Warning| {
        matches!(
            warning,
            Warning::BelowMinCopies {
                in_sync: 2,
                min_copies: 2,
                ..
            }
        )
    };
    assert_eq!(
        rig.warnings.iter().filter(missed).count(),
        1,
        "said once: {:?}",
        rig.warnings
    );
    assert_eq!(rig.sequencer.status().stuck_groups.len(), 1);
    // It comes back: the write ends.
    rig.up(3);
    rig.answer_fences();
    let three = rig.writes(3);
    rig.done(&three);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn who_is_deposed_evicts_nobody_and_stops() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[1; 4096]);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.depose();
    rig.lost(3);
    rig.do_call();
    assert_eq!(
        rig.stopped,
        Some(StopReason::Deposed {
            generation: Generation(4)
        })
    );
    assert_eq!(rig.result(io), Some(Err(IoError::Lost)));
    assert_eq!(rig.group(0).epoch, Epoch(1));
}

#[test]
fn a_lost_race_is_adopted() {
    let mut rig = Rig::open(3, 1);
    let io = rig.write(0, &[1; 4096]);
    let one = rig.writes(1);
    rig.done(&one);
    let two = rig.writes(2);
    rig.evict_elsewhere(3);
    rig.lost(3);
    rig.do_call();
    // Somebody else did it, and nothing more is to be done.
    assert!(rig.calls.is_empty());
    assert_eq!(rig.sequencer.counters().lost_races, 1);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
    // Another one was evicted than the one that we miss: once more.
    let mut rig = Rig::open(3, 1);
    let io = rig.write(0, &[1; 4096]);
    let one = rig.writes(1);
    rig.done(&one);
    rig.evict_elsewhere(2);
    rig.lost(3);
    rig.do_call();
    assert_eq!(rig.result(io), None);
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!((rig.group(0).epoch, rig.group(0).in_sync), (Epoch(3), vec![store(1)]));
}

#[test]
fn an_unknown_outcome_is_read_back() {
    for done in [true, false] {
        let mut rig = Rig::open(3, 2);
        let io = rig.write(0, &[1; 4096]);
        for number in [1, 2] {
            let writes = rig.writes(number);
            rig.done(&writes);
        }
        rig.lost(3);
        rig.fail_call(done);
        assert_eq!(rig.result(io), None);
        rig.pass_ms(30);
        assert!(rig.calls[0].1.is_read_only(), "R6: read back before anything else");
        rig.do_call();
        assert_eq!(rig.result(io).is_some(), done);
        if !done {
            rig.pass_ms(30);
            rig.do_call();
        }
        assert_eq!(rig.result(io), Some(Ok(())));
        assert_eq!(rig.group(0).epoch, Epoch(2));
    }
}

#[test]
fn while_the_metadata_is_away_the_rest_goes_on() {
    let mut rig = Rig::open(3, 2);
    let stuck = rig.write(0, &[1; 4096]);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.down(3);
    rig.lost(3);
    rig.refuse_call();
    let mut calls = 0;
    for _ in 0..400 {
        rig.pass_ms(10);
        if !rig.calls.is_empty() {
            rig.refuse_call();
            calls += 1;
        }
    }
    assert!((5..20).contains(&calls), "with growing pauses: {calls}");
    let warned = rig
        .warnings
        .iter()
        .filter(|warning| matches!(warning, Warning::Metadata { .. }))
        .count();
    assert_eq!(warned, 1);
    // Reads need nobody's leave but the stores'.
    let read = rig.read(8192, 4096);
    rig.answer_reads(old(5));
    assert_eq!((rig.result(read), rig.result(stuck)), (Some(Ok(())), None));
    rig.pass_ms(600);
    rig.do_call();
    assert_eq!(rig.result(stuck), Some(Ok(())));
}

#[test]
fn many_groups_go_in_batches_and_untouched_ones_when_they_are_touched() {
    let groups = 128;
    let mut rig = Rig::with(2, 1, groups, Config::default());
    let mut touched = std::collections::BTreeSet::new();
    for chunk in 0..100 {
        let id = amita_types::ChunkId {
            volume: amita_types::VolumeId(9),
            index: amita_types::ChunkIndex(chunk),
        };
        touched.insert(id.group(groups).0);
        rig.write(chunk * CHUNK_BYTES, &[1; 4096]);
    }
    rig.answer_fences();
    rig.answer_opens(|_| old(1));
    let one = rig.writes(1);
    rig.done(&one);
    assert!(rig.ended.is_empty() && touched.len() > MAX_EVICTION_GROUPS);
    rig.lost(2);
    let puts = rig.calls[0]
        .1
        .then
        .iter()
        .filter(|op| matches!(op, Op::Put { .. }))
        .count();
    assert_eq!(puts, MAX_EVICTION_GROUPS);
    assert!(rig.calls[0].1.check().is_ok());
    rig.do_call();
    rig.do_call();
    assert_eq!(rig.ended.len(), 100);
    let moved: Vec<u32> = (0..groups)
        .filter(|&index| rig.group(index).epoch == Epoch(2))
        .collect();
    assert!(moved.iter().eq(touched.iter()), "only those that are in use");
    // A group that is touched later loses it then, and is fenced after that.
    let chunk = (100..200).find(|&chunk| {
        let id = amita_types::ChunkId {
            volume: amita_types::VolumeId(9),
            index: amita_types::ChunkIndex(chunk),
        };
        !touched.contains(&id.group(groups).0)
    });
    rig.read(chunk.expect("there is one") * CHUNK_BYTES, 4096);
    rig.do_call();
    let epochs: Vec<Epoch> = rig.fences().iter().map(|request| request.scope.epoch).collect();
    assert!(epochs.contains(&Epoch(2)));
}

#[test]
fn hints_are_only_hints() {
    let mut rig = Rig::open(3, 1);
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(1), false);
    rig.sequencer.hint(rig.now, GroupIndex(77), Epoch(9), false);
    rig.collect();
    assert!(rig.calls.is_empty());
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(2), false);
    rig.collect();
    rig.do_call();
    assert_eq!(rig.sequencer.counters().adopted, 0, "it was not true");
    rig.pass_ms(100);
    rig.evict_elsewhere(1);
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(2), false);
    rig.collect();
    rig.do_call();
    assert_eq!(rig.sequencer.counters().adopted, 1);
    rig.depose();
    rig.sequencer.hint_volume(rig.now, Generation(4));
    rig.collect();
    rig.do_call();
    assert_eq!(
        rig.stopped,
        Some(StopReason::Deposed {
            generation: Generation(4)
        })
    );
}

#[test]
fn a_hint_of_a_group_that_is_not_in_use_waits_until_it_is() {
    let mut rig = Rig::new(3, 1);
    rig.evict_elsewhere(3);
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(2), false);
    rig.collect();
    assert!(rig.calls.is_empty() && rig.sequencer.is_quiet());
    let io = rig.read(0, 4096);
    assert!(!rig.sequencer.is_quiet());
    rig.do_call();
    rig.answer_fences();
    for request in rig.fences() {
        assert_ne!(request.store, store(3));
    }
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.answer_renewals();
    assert!(rig.sequencer.is_quiet());
}

#[test]
fn metadata_that_went_back_ends_it() {
    let mut rig = Rig::open(3, 1);
    rig.evict_elsewhere(3);
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(2), false);
    rig.collect();
    rig.do_call();
    let mut group = rig.group(0);
    group.epoch = Epoch(1);
    let key = "/amita/groups/1/0000000000";
    rig.metadata
        .txn(&amita_metadata::Call::put(key, serde_json::to_vec(&group).unwrap()))
        .unwrap();
    rig.pass_ms(100);
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(3), false);
    rig.collect();
    rig.do_call();
    assert!(matches!(rig.stopped, Some(StopReason::Metadata { .. })));

    // So does a member that nobody of us has brought up to date.
    let mut rig = Rig::open(2, 1);
    let mut group = rig.group(0);
    group.epoch = Epoch(2);
    group.in_sync.push(store(9));
    rig.metadata
        .txn(&amita_metadata::Call::put(key, serde_json::to_vec(&group).unwrap()))
        .unwrap();
    rig.sequencer.hint(rig.now, GroupIndex(0), Epoch(2), false);
    rig.collect();
    rig.do_call();
    assert!(matches!(rig.stopped, Some(StopReason::Metadata { .. })));
}

/// Who may write a key may write anything there: the volume stops, and says where to look.
#[test]
fn a_groups_record_that_cannot_be_ends_it() {
    let spoiled: [fn(&mut amita_types::map::Group); 5] = [
        |group| group.in_sync.clear(),
        |group| group.in_sync.push(store(1)),
        |group| {
            group.syncing = (10..20)
                .map(|number| amita_types::map::Syncing {
                    store: store(number),
                    since: Epoch(2),
                })
                .collect();
        },
        |group| group.members = vec![store(7); 9],
        |group| group.epoch = Epoch(u64::MAX),
    ];
    for spoil in spoiled {
        let mut rig = Rig::open(3, 2);
        rig.change_group(spoil);
        assert!(matches!(rig.stopped, Some(StopReason::Metadata { .. })));
    }
}

#[test]
fn what_an_evicted_store_says_is_not_heard() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(0, 4096);
    let request = rig.reads().remove(0);
    rig.lost(request.store.0);
    rig.do_call();
    rig.answer_read(&request, old(5));
    assert_eq!(rig.result(io), None);
    rig.answer_fences();
    rig.answer_reads(old(5));
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.accept(&request, AnswerBody::Done);
    assert_eq!(rig.ended.len(), 1);
}

/// Everything that members 1 and 2 are asked is answered; member 3 grants leases, and nothing that needs its disk.
fn answer_but_the_disk_of_three(rig: &mut Rig) {
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.answer_renewals();
    for request in rig.reads() {
        if request.store == store(3) {
            rig.sent.push((request.store, request, amita_reactor::Slice::default()));
        } else {
            rig.answer_read(&request, old(5));
        }
    }
}

#[test]
fn a_disk_that_hangs_is_evicted_though_its_store_grants_leases() {
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(100);
    let io = rig.write(0, &[1; 4096]);
    // The volume is read all the time, and each read asks the others for leases.
    for _ in 0..19 {
        rig.read(40 * 4096, 4096);
        rig.pass_ms(100);
        answer_but_the_disk_of_three(&mut rig);
        assert!(rig.calls.is_empty(), "not before its time");
    }
    // The leases that it grants do not keep it in for ever.
    for _ in 0..30 {
        rig.pass_ms(100);
        answer_but_the_disk_of_three(&mut rig);
        if !rig.calls.is_empty() {
            break;
        }
    }
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
}

#[test]
fn one_operation_that_hangs_evicts_though_the_others_go_on() {
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(100);
    let io = rig.write(0, &[1; 4096]);
    let mut hung = None;
    for round in 0..40_u64 {
        if round > 0 {
            rig.write((CHUNK_BYTES / 4096 - 1 - round % 8) * 4096, &[2; 4096]);
        }
        for number in [1, 2, 3] {
            let mut writes = rig.writes(number);
            if number == 3 && hung.is_none() {
                hung = Some(writes.remove(0));
            }
            rig.done(&writes);
        }
        rig.pass_ms(55);
        if !rig.calls.is_empty() {
            break;
        }
    }
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
}

#[test]
fn a_store_that_is_slow_and_answers_in_order_is_not_evicted_for_it() {
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(100);
    let mut owed = std::collections::VecDeque::new();
    // Each write takes three seconds there, and one ends every 100 ms.
    for round in 0..100_u64 {
        rig.write((round % 32) * 4096, &[1; 4096]);
        for number in [1, 2] {
            let writes = rig.writes(number);
            rig.done(&writes);
        }
        owed.extend(rig.writes(3));
        if round >= 19 && round % 2 == 1 || owed.len() > 30 {
            let oldest = owed.pop_front().expect("more come than go");
            rig.done(&[oldest]);
        }
        rig.answer_renewals();
        rig.pass_ms(100);
        assert!(rig.calls.is_empty(), "round {round}");
    }
}

#[test]
fn a_store_that_works_and_is_busy_gets_more_time() {
    use amita_types::message::Refusal;
    let mut rig = Rig::open(3, 2);
    rig.pass_ms(100);
    let io = rig.write(0, &[1; 4096]);
    let mut waited = 0;
    while rig.calls.is_empty() {
        for number in [1, 2] {
            let writes = rig.writes(number);
            rig.done(&writes);
        }
        for request in rig.writes(3) {
            rig.refuse(&request, Refusal::Busy);
        }
        rig.pass_ms(10);
        waited += 10;
        assert!(waited < 20_000, "but not for ever");
    }
    assert!((9_900..10_200).contains(&waited), "{waited} ms");
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn a_link_that_comes_back_again_and_again_does_not_keep_a_store() {
    let mut rig = Rig::open(3, 2);
    let io = rig.write(0, &[1; 4096]);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    // It answers its fence each time, and its link ends before it has answered the write.
    for _ in 0..100 {
        rig.down(3);
        rig.pass_ms(50);
        rig.up(3);
        rig.answer_fences();
        rig.pass_ms(50);
        if !rig.calls.is_empty() {
            break;
        }
    }
    rig.do_call();
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
}

#[test]
fn a_store_that_was_stuck_and_may_not_be_evicted_serves_again() {
    let mut rig = Rig::open(1, 1);
    let hangs = rig.read(0, 4096);
    let first = rig.reads();
    assert_eq!(first.len(), 1);
    // Others are answered, for longer than one may hang.
    for _ in 0..30 {
        let other = rig.read(4096, 4096);
        rig.pass_ms(100);
        rig.answer_reads(old(5));
        assert_eq!(rig.result(other), Some(Ok(())), "it is the only copy");
    }
    rig.answer_read(&first[0], old(5));
    rig.answer_renewals();
    assert_eq!(rig.result(hangs), Some(Ok(())));
    let io = rig.write(0, &[1; 4096]);
    for request in rig.settles() {
        rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
    }
    rig.pass_ms(100);
    let writes = rig.writes(1);
    rig.done(&writes);
    assert_eq!(rig.result(io), Some(Ok(())));
}

/// A store of two is silent for a while and owes only a lease; it may not be evicted. When it has answered that, it is
/// as good as before: nothing else would be asked of it that says so.
#[test]
fn a_store_that_was_silent_and_has_answered_all_is_not_lost() {
    for writes in [true, false] {
        let mut rig = Rig::open(2, 2);
        // All credits are given back meanwhile.
        rig.credit = 0;
        for _ in 0..120 {
            rig.pass_ms(100);
            rig.answer_renewals();
        }
        let read = rig.read(0, 4096);
        let owed = rig.renewals();
        rig.answer_reads(old(5));
        assert!(!owed.is_empty(), "a lease is asked for");
        for _ in 0..40 {
            rig.pass_ms(50);
        }
        for request in &owed {
            rig.accept(request, AnswerBody::LeaseRenewed);
        }
        rig.answer_renewals();
        assert_eq!(rig.result(read), Some(Ok(())));
        if writes {
            let io = rig.write(0, &[1; 4096]);
            let asked = rig.settles();
            assert_eq!(asked.len(), 2, "both are asked for credits: {asked:?}");
            rig.credit = 8;
            for request in &asked {
                rig.accept(request, AnswerBody::Settled(SettledAnswer { full: false }));
            }
            let (one, two) = (rig.writes(1), rig.writes(2));
            rig.done(&one);
            rig.done(&two);
            assert_eq!(rig.result(io), Some(Ok(())));
        } else {
            // It can be read from alone.
            rig.down(1);
            rig.read(0, 4096);
            let asked: Vec<_> = rig.reads().iter().map(|request| request.store).collect();
            assert_eq!(asked, [store(2)], "the one that is left");
        }
    }
}

/// A store that may not be evicted in one group refuses a write there again and again, and is left alone in between. It answers all
/// that it is asked, so it loses its place nowhere else.
#[test]
fn a_store_that_refuses_what_it_must_take_keeps_its_other_places() {
    let config = Config {
        busy_pause: Duration::from_millis(10),
        store_timeout: Duration::from_millis(900),
        ..Config::default()
    };
    let mut rig = Rig::with(3, 2, 2, config);
    let group_of = |chunk| {
        let (volume, index) = (VolumeId(9), ChunkIndex(chunk));
        ChunkId { volume, index }.group(2)
    };
    let chunk_of = |group| {
        (0..)
            .find(|chunk| group_of(*chunk) == GroupIndex(group))
            .expect("some are")
    };
    let (here, elsewhere) = (chunk_of(0) * CHUNK_BYTES, chunk_of(1) * CHUNK_BYTES);
    let opened = [rig.read(here, 4096), rig.read(elsewhere, 4096)];
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    rig.answer_reads(old(5));
    assert!(opened.iter().all(|io| rig.result(*io) == Some(Ok(()))));
    rig.change_group(|group| group.in_sync.retain(|id| *id != store(3)));
    rig.answer_fences();
    let refused = rig.write(here, &[1; 4096]);
    let one = rig.writes(1);
    rig.done(&one);
    let mut times = 0;
    // What it is sent again lies there for a moment each time, while others are served.
    for _ in 0..400 {
        rig.pass_ms(5);
        let again = rig.writes(2);
        times += again.len();
        if !again.is_empty() {
            let other = rig.write(elsewhere, &[2; 4096]);
            for number in [1, 2, 3] {
                let writes = rig.writes(number);
                rig.done(&writes);
            }
            assert_eq!(rig.result(other), Some(Ok(())));
            rig.pass_ms(10);
        }
        for request in again {
            rig.refuse(&request, Refusal::NoSpace);
        }
        rig.answer_renewals();
        for request in rig.settles() {
            rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
        }
        assert!(rig.calls.is_empty(), "after {times} refusals");
    }
    assert!(times > 3, "{times}");
    assert_eq!((rig.result(refused), rig.group(1).in_sync.len()), (None, 3));
}
