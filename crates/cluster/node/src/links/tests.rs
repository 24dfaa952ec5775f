use super::*;

/// A node's links, and how many segments each connection has sent and lost.
#[derive(Default)]
struct Bench {
    links: Links,
    counts: BTreeMap<(usize, u64), (NodeId, PathCounts)>,
    cut: Vec<NodeId>,
}

impl Bench {
    fn send(&mut self, core: usize, link: u64, peer: u32, sent: u32, lost: u32) {
        let (_, counts) = self
            .counts
            .entry((core, link))
            .or_insert((NodeId(peer), PathCounts::default()));
        counts.sent = counts.sent.wrapping_add(sent + lost);
        counts.resent += lost;
        (counts.round_trip_us, counts.least_us) = (120, 100);
    }

    fn round(&mut self) -> Option<LinkReport> {
        let mut cores: BTreeMap<usize, Vec<LinkPath>> = BTreeMap::from([(0, Vec::new())]);
        for (&(core, link), &(peer, counts)) in &self.counts {
            let link = Link(link);
            cores.entry(core).or_default().push(LinkPath { link, peer, counts });
        }
        for (core, paths) in cores {
            let cut = if core == 0 { self.cut.clone() } else { Vec::new() };
            let nodes: BTreeSet<NodeId> = paths.iter().map(|path| path.peer).chain(cut.iter().copied()).collect();
            let names = nodes.into_iter().map(|node| (node, format!("n{node}"))).collect();
            let next = None;
            let answer = LinkAnswer {
                core,
                paths,
                next,
                cut,
                names,
            };
            self.links.take(&answer);
        }
        self.links.end_round()
    }
}

#[test]
fn a_link_that_loses_is_bad_after_three_rounds_and_well_after_six() {
    let mut bench = Bench::default();
    for round in 0..5 {
        bench.send(0, 1, 2, 5000, 0);
        bench.send(0, 2, 3, 5000, 1);
        let told = bench.round();
        assert_eq!(told.is_some(), round == 0, "that it measures is said once: {told:?}");
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        bench.send(0, 1, 2, 5000, 100);
        bench.send(0, 2, 3, 5000, 0);
        told.push(bench.round());
    }
    assert_eq!((&told[0], &told[1]), (&None, &None));
    let report = told[2].as_ref().unwrap();
    assert_eq!((report.measured, report.bad), (2, 1));
    let found = report.worst[0];
    assert_eq!(
        (found.peer, found.what, found.sent, found.lost),
        (NodeId(2), LinkTrouble::Loss, 5100, 100)
    );
    assert_eq!((found.round_trip_us, found.least_us), (120, 100));
    let shown = bench.links.shown();
    assert_eq!((shown[0].name.as_str(), shown[0].bad), ("n2", Some(LinkTrouble::Loss)));
    assert_eq!((shown[0].sent, shown[0].lost), (40_300, 300));

    // Between bad and well nothing changes; what is bad is told again.
    let mut told = 0;
    for _ in 0..9 {
        bench.send(0, 1, 2, 10_000, 50);
        told += usize::from(bench.round().is_some());
    }
    assert_eq!(told, 3);
    for round in 1..=6 {
        bench.send(0, 1, 2, 10_000, 5);
        let report = bench.round();
        match round {
            6 => assert_eq!(report.unwrap().bad, 0),
            _ => assert!(report.is_none_or(|report| report.bad == 1)),
        }
    }
}

#[test]
fn an_idle_link_is_judged_by_minutes_of_it() {
    // As the fabric sends it where a node has about as many peers as cores: one connection each way. By its own a node asks,
    // by the other one it answers.
    let each_way = crate::peer_links::links(8, 4, 5) as u32;
    let a_round = (ROUND.as_secs() / amita_fabric::limits::IDLE_PING.as_secs()) as u32 * 2 * each_way;
    assert_eq!((each_way, a_round), (1, 4));
    let mut bench = Bench::default();
    let mut found_after = None;
    for round in 1..=60_u32 {
        bench.send(0, 1, 2, a_round, u32::from(round % 6 == 0));
        if bench.round().is_some_and(|report| report.bad == 1) {
            found_after = found_after.or(Some(round));
        }
    }
    assert_eq!(found_after, Some(50), "of 200 segments");
    let mut well_after = None;
    for round in 1..=80_u32 {
        bench.send(0, 1, 2, a_round, 0);
        if bench.round().is_some_and(|report| report.bad == 0) {
            well_after = well_after.or(Some(round));
        }
    }
    assert_eq!(
        well_after,
        Some(55),
        "200 segments of which none is lost, and five more looks"
    );
}

#[test]
fn of_a_busy_peer_few_rounds_are_kept() {
    let mut bench = Bench::default();
    for _ in 0..200 {
        bench.send(0, 1, 2, 3, 0);
        bench.send(0, 2, 3, 1000, 0);
        bench.round();
    }
    let kept = |peer| bench.links.peers.get(&NodeId(peer)).unwrap().rounds.len();
    assert_eq!((kept(2), kept(3)), (67, 1));
    // Too little is sent to say anything within what is kept.
    let mut bench = Bench::default();
    for _ in 0..200 {
        bench.send(0, 1, 2, 1, 0);
        assert!(bench.round().is_none_or(|report| report.measured == 0));
    }
    assert_eq!(bench.links.peers.get(&NodeId(2)).unwrap().rounds.len(), KEPT_ROUNDS);
}

#[test]
fn a_link_is_judged_only_by_what_is_sent_now() {
    // The round trip of a connection that sends nothing is as old as what it sent last.
    let mut bench = Bench::default();
    bench.send(0, 1, 2, 1000, 0);
    bench.round();
    let (_, counts) = bench.counts.get_mut(&(0, 1)).unwrap();
    counts.round_trip_us = 25_000;
    for _ in 0..20 {
        assert!(bench.round().is_none_or(|report| report.bad == 0));
    }
    // What was lost in one moment is no bad link, though the window has it for minutes.
    let mut bench = Bench::default();
    bench.send(0, 1, 2, 180, 20);
    for _ in 0..20 {
        assert!(bench.round().is_none_or(|report| report.bad == 0));
        bench.send(0, 1, 2, 4, 0);
    }
}

#[test]
fn who_starts_and_who_measures_much_less_says_so() {
    let mut bench = Bench::default();
    assert_eq!(bench.round().map(|report| report.measured), Some(0));
    for peer in 2..12 {
        bench.send(0, peer.into(), peer, 1000, 0);
    }
    assert_eq!(bench.round().map(|report| report.measured), Some(10));
    // Most of them are there no more.
    bench.counts.retain(|(_, link), _| *link < 5);
    let mut told = Vec::new();
    for _ in 0..60 {
        bench.send(0, 2, 2, 10, 0);
        told.extend(bench.round().map(|report| report.measured));
    }
    assert_eq!(told, vec![3]);
}

#[test]
fn silence_makes_no_link_well() {
    let mut bench = Bench::default();
    for _ in 0..3 {
        bench.send(0, 1, 2, 1000, 50);
        bench.round();
    }
    let mut told = 0;
    for _ in 0..200 {
        let report = bench.round();
        assert!(report.as_ref().is_none_or(|report| report.bad == 1));
        told += u32::from(report.is_some());
    }
    assert!(told > 50, "it is bad still");
}

#[test]
fn what_was_sent_again_for_nothing_is_not_lost() {
    let mut bench = Bench::default();
    for _ in 0..10 {
        bench.send(0, 1, 2, 1000, 100);
        let (_, counts) = bench.counts.get_mut(&(0, 1)).unwrap();
        counts.doubled = counts.resent;
        assert!(bench.round().is_none_or(|report| report.bad == 0));
    }
}

#[test]
fn a_link_that_is_made_anew_is_counted_from_its_beginning_and_counts_wrap() {
    let mut bench = Bench::default();
    bench.send(0, 1, 2, u32::MAX - 100, 0);
    bench.round();
    bench.send(0, 1, 2, 300, 0);
    bench.round();
    let total = |bench: &Bench| bench.links.shown()[0].sent;
    assert_eq!(total(&bench), u64::from(u32::MAX) + 200);
    bench.counts.clear();
    bench.send(0, 9, 2, 7, 0);
    bench.round();
    assert_eq!(total(&bench), u64::from(u32::MAX) + 207);
}

#[test]
fn a_peer_that_lives_and_is_not_reached_is_cut() {
    let mut bench = Bench::default();
    bench.send(0, 1, 2, 1000, 0);
    bench.send(0, 2, 3, 1000, 0);
    bench.round();
    bench.counts.remove(&(0, 1));
    bench.cut = vec![NodeId(2), NodeId(3)];
    let told: Vec<_> = (0..3).filter_map(|_| bench.round()).collect();
    assert_eq!(told.len(), 1);
    // The other one is reached by some core.
    assert_eq!(
        (told[0].bad, told[0].worst[0].peer, told[0].worst[0].what),
        (1, NodeId(2), LinkTrouble::Cut)
    );
    assert_eq!(told[0].worst[0].loss_ppm(), 1_000_000);
}

#[test]
fn a_way_that_takes_many_times_as_long_is_late() {
    let mut bench = Bench::default();
    let mut last = None;
    for round in 0..8 {
        bench.send(0, 1, 2, 1000, 0);
        if round > 2 {
            let (_, counts) = bench.counts.get_mut(&(0, 1)).unwrap();
            counts.round_trip_us = 25_000;
        }
        last = bench.round().or(last);
    }
    let report = last.unwrap();
    assert_eq!((report.bad, report.worst[0].what), (1, LinkTrouble::Late));
    assert_eq!((report.worst[0].round_trip_us, report.worst[0].least_us), (25_000, 100));
    // A long way is not late.
    let mut bench = Bench::default();
    for _ in 0..8 {
        bench.send(0, 1, 2, 1000, 0);
        let (_, counts) = bench.counts.get_mut(&(0, 1)).unwrap();
        (counts.round_trip_us, counts.least_us) = (35_000, 30_000);
        assert!(bench.round().is_none_or(|report| report.bad == 0));
    }
}

#[test]
fn noise_is_not_called_bad() {
    // One segment in two thousand is lost, at all loads, for hours.
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut bench = Bench::default();
    for _ in 0..2000 {
        for peer in 2..6 {
            let sent = [20, 200, 2000, 3000][peer as usize - 2];
            let lost = (0..sent).filter(|_| random(2000) == 0).count() as u32;
            bench.send(0, peer.into(), peer, sent - lost, lost);
        }
        assert!(bench.round().is_none_or(|report| report.bad == 0));
    }
}

#[test]
fn a_report_is_bounded_and_what_is_gone_is_forgotten() {
    let mut bench = Bench::default();
    for _ in 0..4 {
        for peer in 1..=1000 {
            bench.send(0, peer.into(), peer, 1000, if peer <= 40 { 50 } else { 0 });
        }
        bench.round();
    }
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!((report.measured, report.bad, report.worst.len()), (1000, 40, MAX_NAMED));
    assert!(!report.is_complete());
    assert_eq!(bench.links.shown().len(), MAX_SHOWN);
    assert_eq!(bench.links.shown().iter().filter(|peer| peer.bad.is_some()).count(), 40);
    bench.counts.retain(|(_, link), _| *link == 1);
    for _ in 0..100 {
        bench.send(0, 1, 1, 1000, 50);
        bench.round();
    }
    assert_eq!((bench.links.peers.len(), bench.links.last.len()), (1, 1));
    // Who is bad to most names few.
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!((report.measured, report.bad, report.worst.len()), (1, 1, 1));
}
