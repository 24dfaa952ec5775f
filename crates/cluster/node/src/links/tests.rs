use super::*;

/// A node's links, and how many segments each connection has sent and lost.
#[derive(Default)]
struct Bench {
    links: Links,
    counts: BTreeMap<(usize, u64), (NodeId, PathCounts)>,
    cut: Vec<NodeId>,
    /// Nodes with two networks. Links from number [`BY_SECOND`] on go by the second.
    second: BTreeSet<NodeId>,
    heard: Heard,
    /// What has come of all rounds beside reports.
    steered: Vec<(NodeId, Network)>,
    tales: Vec<Tale>,
}

const BY_SECOND: u64 = 10_000;

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
            let network = if link < BY_SECOND {
                Network::First
            } else {
                Network::Second
            };
            let path = LinkPath {
                link: Link(link),
                peer,
                network,
                outgoing: true,
                counts,
            };
            cores.entry(core).or_default().push(path);
        }
        for (core, paths) in cores {
            let cut = if core == 0 { self.cut.clone() } else { Vec::new() };
            let nodes: BTreeSet<NodeId> = paths.iter().map(|path| path.peer).chain(cut.iter().copied()).collect();
            let named = |node| Named {
                node,
                name: format!("n{node}"),
                has_second: self.second.contains(&node),
            };
            let named = nodes.into_iter().map(named).collect();
            let next = None;
            let answer = LinkAnswer {
                core,
                paths,
                next,
                cut,
                named,
            };
            self.links.take(&answer);
        }
        let ended = self.links.end_round(&self.heard);
        self.steered.extend(ended.steer);
        self.tales.extend(ended.tales.into_iter().map(|(_, _, tale)| tale));
        ended.report
    }

    /// The connections to the peer are by that network from now on.
    fn go(&mut self, peer: u32, network: Network) {
        self.counts.retain(|_, (node, _)| *node != NodeId(peer));
        self.send(0, place(peer, network), peer, 1, 0);
    }
}

/// The number of a peer's link by that network.
fn place(peer: u32, network: Network) -> u64 {
    u64::from(peer) + network.index() as u64 * BY_SECOND
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
    let kept = |peer| bench.links.peers.get(&NodeId(peer)).unwrap().sides[0].rounds.len();
    assert_eq!((kept(2), kept(3)), (67, 1));
    // Too little is sent to say anything within what is kept.
    let mut bench = Bench::default();
    for _ in 0..200 {
        bench.send(0, 1, 2, 1, 0);
        assert!(bench.round().is_none_or(|report| report.measured == 0));
    }
    assert_eq!(
        bench.links.peers.get(&NodeId(2)).unwrap().sides[0].rounds.len(),
        KEPT_ROUNDS
    );
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

/// A node with two peers that have two networks, of which the first loses what is sent to node 2.
fn lossy(policy: SickPolicy) -> Bench {
    let mut bench = Bench {
        second: BTreeSet::from([NodeId(2), NodeId(3)]),
        ..Bench::default()
    };
    bench.heard.policy = policy;
    lose(&mut bench);
    bench
}

fn lose(bench: &mut Bench) {
    for _ in 0..3 {
        bench.send(0, place(2, Network::First), 2, 1000, 50);
        bench.send(0, place(3, Network::First), 3, 1000, 0);
        bench.round();
    }
}

#[test]
fn a_link_that_loses_is_left_and_is_no_reason_to_blame_anybody() {
    let mut bench = lossy(SickPolicy::Avoid);
    assert_eq!(bench.steered, vec![(NodeId(2), Network::Second)]);
    assert!(bench.tales.is_empty(), "nothing is told before it is so");
    bench.links.not_told();
    bench.go(2, Network::Second);
    let report = bench.round().unwrap();
    assert_eq!((report.bad, report.left), (0, 1));
    let left = report.left_worst[0];
    assert_eq!(
        (left.peer, left.network, left.what, left.loss_ppm()),
        (NodeId(2), Network::First, LinkTrouble::Loss, 47_619)
    );
    assert!(matches!(bench.tales[..], [Tale::Left(told)] if told.link == left && told.own));
    let shown = bench.links.shown();
    assert_eq!(
        (shown[0].name.as_str(), shown[0].network, shown[0].bad, shown[0].left),
        ("n2", Network::Second, None, Some(LinkTrouble::Loss))
    );
    assert_eq!((shown[1].network, shown[1].left), (Network::First, None));
    // It is renewed as what is bad is.
    let renewed = (0..30).filter_map(|_| {
        bench.send(0, place(2, Network::Second), 2, 1000, 0);
        bench.round()
    });
    assert!(renewed.filter(|report| report.left == 1 && report.bad == 0).count() >= 9);
}

#[test]
fn what_was_left_is_measured_anew_when_either_end_tries_it_again() {
    let mut bench = lossy(SickPolicy::Isolate);
    bench.go(2, Network::Second);
    for _ in 0..40 {
        bench.send(0, place(2, Network::Second), 2, 10, 0);
        bench.round();
    }
    // One core is sooner back than the others.
    let mut told = Vec::new();
    for _ in 0..4 {
        bench.send(1, place(2, Network::First), 2, 10, 0);
        bench.links.not_told();
        told.extend(bench.round().map(|report| (report.bad, report.left)));
    }
    assert_eq!(told, [(0, 1); 4], "nothing is known of it now");
    for _ in 0..3 {
        bench.send(1, place(2, Network::First), 2, 1000, 90);
        bench.links.not_told();
        told.extend(bench.round().map(|report| (report.bad, report.left)));
    }
    assert_eq!(
        told.last(),
        Some(&(1, 1)),
        "it is in use and bad again, whoever uses it"
    );
}

#[test]
fn what_was_left_for_being_late_is_found_late_by_a_connection_that_knows_no_better() {
    let first = place(2, Network::First);
    let late = |bench: &mut Bench, core: usize, least_us: u32| {
        bench.send(core, first, 2, 1000, 0);
        let counts = &mut bench.counts.get_mut(&(core, first)).unwrap().1;
        (counts.round_trip_us, counts.least_us) = (50_000, least_us);
        bench.round();
    };
    let mut bench = Bench {
        second: BTreeSet::from([NodeId(2)]),
        ..Bench::default()
    };
    bench.heard.policy = SickPolicy::Avoid;
    for _ in 0..3 {
        late(&mut bench, 0, 100);
    }
    bench.go(2, Network::Second);
    while bench.steered.len() < 2 {
        bench.send(0, place(2, Network::Second), 2, 10, 0);
        bench.round();
    }
    assert_eq!(
        bench.steered,
        [(NodeId(2), Network::Second), (NodeId(2), Network::First)]
    );
    bench.counts.clear();
    for _ in 0..10 {
        late(&mut bench, 1, 50_000);
    }
    assert!(matches!(bench.tales[..], [Tale::Left(_), Tale::Back(Network::First)]));
    assert_eq!(
        bench.steered.last(),
        Some(&(NodeId(2), Network::Second)),
        "it is late still"
    );
}

#[test]
fn what_is_only_proposed_stays_and_is_told_once() {
    for (policy, told) in [(SickPolicy::Off, 0), (SickPolicy::Propose, 1)] {
        let mut bench = lossy(policy);
        for _ in 0..20 {
            lose(&mut bench);
        }
        bench.links.not_told();
        let report = bench.round().unwrap();
        assert_eq!((report.bad, report.left, bench.steered.len()), (1, 0, 0), "{policy:?}");
        assert_eq!(bench.tales.len(), told, "{policy:?}");
        assert!(bench.tales.iter().all(|tale| matches!(tale, Tale::Would(_))));
    }
}

#[test]
fn what_is_left_and_bad_by_the_other_network_too_is_blamed() {
    let mut bench = lossy(SickPolicy::Isolate);
    bench.go(2, Network::Second);
    for _ in 0..10 {
        bench.send(0, place(2, Network::Second), 2, 1000, 90);
        bench.round();
    }
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!(
        (report.bad, report.worst[0].network, report.left),
        (1, Network::Second, 1)
    );
    assert_eq!(bench.steered.len(), 1, "there is no well one to go to");
}

#[test]
fn what_the_peer_finds_of_what_it_sends_counts_and_is_not_said_as_ones_own() {
    let mut bench = lossy(SickPolicy::Avoid);
    bench.go(2, Network::Second);
    bench.round();
    let theirs = BadLink {
        peer: NodeId(1),
        network: Network::First,
        what: LinkTrouble::Loss,
        sent: 300,
        lost: 30,
        round_trip_us: 0,
        least_us: 0,
    };
    let theirs = Accusation {
        link: theirs,
        in_use: true,
    };
    bench.heard.accusers.insert(NodeId(3), [Some(theirs), None]);
    bench.send(0, place(3, Network::First), 3, 1000, 0);
    bench.round();
    assert_eq!(bench.steered[1..], [(NodeId(3), Network::Second)]);
    bench.go(3, Network::Second);
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!(
        (report.left, report.left_worst[0].peer),
        (1, NodeId(2)),
        "its own alone"
    );
    let told = bench.tales.last();
    assert!(
        matches!(told, Some(Tale::Left(left)) if !left.own && left.link.peer == NodeId(3) && left.link.lost == 30),
        "{told:?}"
    );
}

#[test]
fn where_all_connections_have_gone_over_the_other_network_is_cut() {
    let mut bench = lossy(SickPolicy::Off);
    bench.links = Links::default();
    bench.go(2, Network::Second);
    bench.round();
    assert!(bench.tales.is_empty(), "they may be on their way");
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!((report.left, report.left_worst[0].what), (1, LinkTrouble::Cut));
    assert!(matches!(bench.tales[..], [Tale::Left(left)] if left.link.network == Network::First));
    bench.steered.clear();
    for _ in 0..12 {
        bench.round();
    }
    assert_eq!(
        bench.steered,
        vec![(NodeId(2), Network::First); 2],
        "it is tried each minute"
    );
    bench.go(2, Network::First);
    bench.links.not_told();
    let report = bench.round().unwrap();
    assert_eq!(
        (report.left, bench.tales.last()),
        (0, Some(&Tale::Back(Network::First)))
    );
}

#[test]
fn a_node_hears_what_concerns_it_and_the_policy() {
    let mut heard = Heard::default();
    assert_eq!(heard.policy, SickPolicy::Propose);
    let said = br#"{"sick_networks":{"policy":"isolate"}}"#;
    heard.hear(NodeId(1), &recovery_key(), Some(said));
    assert_eq!(heard.policy, SickPolicy::Isolate);
    heard.hear(NodeId(1), &recovery_key(), Some(b"{"));
    assert_eq!(heard.policy, SickPolicy::Isolate);
    heard.hear(NodeId(1), &recovery_key(), None);
    assert_eq!(heard.policy, SickPolicy::Propose);

    let (mine, of_two) = (
        amita_types::link::links_key(NodeId(1)),
        amita_types::link::links_key(NodeId(2)),
    );
    let text = br#"{"measured":9,"left":1,"left_worst":[{"peer":1,"what":"loss","sent":100,"lost":9}]}"#;
    heard.hear(NodeId(1), &mine, Some(text));
    heard.hear(NodeId(3), &of_two, Some(text));
    assert!(heard.accusers.is_empty(), "that is its own, or concerns another one");
    heard.hear(NodeId(1), &of_two, Some(text));
    let found = heard.accusers[&NodeId(2)];
    let said = |found: Accusation| (found.link.lost, found.in_use);
    assert_eq!(found.map(|found| found.map(said)), [Some((9, false)), None]);
    heard.hear(NodeId(1), &of_two, Some(br#"{"measured":9}"#));
    assert!(heard.accusers.is_empty());
    heard.hear(NodeId(1), &of_two, Some(text));
    heard.hear(NodeId(1), &of_two, None);
    assert!(heard.accusers.is_empty());
}
