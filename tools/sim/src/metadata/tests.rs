use super::*;

fn run(metadata: &mut Metadata<u32>, until: Time) -> Vec<Delivery<u32>> {
    let mut all = Vec::new();
    while let Some(at) = metadata.next().filter(|at| *at <= until) {
        metadata.advance(at, |_| false, &mut all);
    }
    all
}

fn answers(deliveries: &[Delivery<u32>]) -> Vec<(u32, Result<bool, bool>)> {
    deliveries
        .iter()
        .filter_map(|delivery| match delivery {
            Delivery::Answer { tag, result, .. } => Some((
                *tag,
                match result {
                    Ok(reply) => Ok(reply.succeeded),
                    Err(error) => Err(matches!(error, Error::Unknown { .. })),
                },
            )),
            Delivery::Changes { .. } | Delivery::Lapsed { .. } => None,
        })
        .collect()
}

const NODE: NodeId = NodeId(1);

#[test]
fn one_of_two_compare_and_sets_wins() {
    let mut metadata = Metadata::new(Random::new(1));
    metadata.call(Time(0), NODE, 1, 10, Call::put_if("k", 0, "a"));
    metadata.call(Time(0), NodeId(2), 1, 20, Call::put_if("k", 0, "b"));
    let mut won: Vec<_> = answers(&run(&mut metadata, Time(10 * MS)))
        .into_iter()
        .map(|(_, won)| won)
        .collect();
    won.sort_unstable();
    assert_eq!(won, [Ok(false), Ok(true)]);
    assert_eq!(metadata.counts.compares_failed, 1);
}

#[test]
fn an_unknown_outcome_is_done_or_not_or_done_late() {
    let mut metadata: Metadata<u32> = Metadata::new(Random::new(1));
    metadata.lose_answers(100);
    for tag in 0..40 {
        metadata.call(Time(0), NODE, 1, tag, Call::put(format!("k{tag}"), "v"));
    }
    let before = run(&mut metadata, Time(CALL_TIMEOUT_NS));
    assert_eq!(answers(&before).len(), 40);
    assert!(
        answers(&before).iter().all(|(_, outcome)| *outcome == Err(true)),
        "all unknown"
    );
    let done = metadata.state().keys().count();
    assert!(run(&mut metadata, Time(30 * CALL_TIMEOUT_NS)).is_empty());
    let late = metadata.state().keys().count() - done;
    assert!(done > 0 && late > 0 && done + late < 40, "{done} done, {late} late");
    let counts = metadata.counts;
    assert_eq!((counts.unknown_done, counts.unknown_late), (done as u64, late as u64));
}

#[test]
fn a_session_lapses_when_its_node_is_cut_off() {
    let mut metadata: Metadata<u32> = Metadata::new(Random::new(1));
    metadata.session(Time(0), NODE, 1, b"{}".to_vec());
    let key = amita_types::map::live_key(NODE);
    let second = 1000 * MS;
    run(&mut metadata, Time(10 * second));
    assert!(metadata.state().get(&key).is_some(), "renewed");
    metadata.cut_off_until(NODE, Time(14 * second));
    run(&mut metadata, Time(11 * second));
    assert!(metadata.state().get(&key).is_some(), "the time to live has not passed");
    run(&mut metadata, Time(13 * second + second / 2));
    assert!(metadata.state().get(&key).is_none(), "lapsed");
    run(&mut metadata, Time(16 * second));
    assert!(metadata.state().get(&key).is_some(), "back, with a new lease");
    metadata.process_ended(NODE);
    run(&mut metadata, Time(20 * second));
    assert!(metadata.state().get(&key).is_none(), "the process is gone");
}

#[test]
fn watchers_see_every_change_in_order() {
    let mut metadata: Metadata<u32> = Metadata::new(Random::new(1));
    metadata.set_up(&Call::put("a", "0"));
    metadata.watch(Time(0), NODE, 7);
    metadata.cut_off_until(NODE, Time(100 * MS));
    for tag in 0..20 {
        metadata.call(Time(0), NodeId(2), 1, tag, Call::put("a", "x"));
    }
    metadata.call(Time(150 * MS), NodeId(2), 1, 20, Call::put("a", "x"));
    let revisions: Vec<u64> = run(&mut metadata, Time(400 * MS))
        .iter()
        .filter_map(|delivery| match delivery {
            Delivery::Changes { batch, process: 7, .. } => Some(batch.revision),
            _ => None,
        })
        .collect();
    let first = revisions[0];
    assert_eq!(revisions, (first..first + 22).collect::<Vec<u64>>());
}
