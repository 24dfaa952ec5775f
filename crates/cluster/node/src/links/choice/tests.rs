use super::*;
use amita_types::NodeId;

fn bad(network: Network, what: LinkTrouble) -> BadLink {
    let round_trip_us = if what == LinkTrouble::Late { 50_000 } else { 100 };
    BadLink {
        peer: NodeId(2),
        network,
        what,
        sent: 1000,
        lost: 50,
        round_trip_us,
        least_us: 100,
    }
}

/// The peer says so of what it still uses.
fn used(link: BadLink) -> Option<Accusation> {
    Some(Accusation { link, in_use: true })
}

/// The peer said so when it left that.
fn left(link: BadLink) -> Option<Accusation> {
    Some(Accusation { link, in_use: false })
}

/// A choice, with connections that go where they are told to.
struct Bench {
    choice: Choice,
    round: u64,
    policy: SickPolicy,
    seen: Seen,
    /// Can connections be had by the network?
    reached: [bool; 2],
    steered: Vec<(u64, Network)>,
    tales: Vec<(u64, Tale)>,
}

impl Bench {
    fn new(policy: SickPolicy) -> Bench {
        Bench {
            choice: Choice::default(),
            round: 1000,
            policy,
            seen: Seen {
                on: [true, false],
                ..Seen::default()
            },
            reached: [true; 2],
            steered: Vec::new(),
            tales: Vec::new(),
        }
    }

    fn is_bad(&mut self, network: Network, what: Option<LinkTrouble>) {
        self.seen.own[network.index()] = what.map(|what| bad(network, what));
    }

    /// The connections are by that network now.
    fn be_on(&mut self, network: Network) {
        self.seen.on = [network == Network::First, network == Network::Second];
    }

    fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            let cut = bad(self.choice.wanted(), LinkTrouble::Cut);
            let step = self.choice.decide(self.round, self.policy, cut, &self.seen);
            if let Some(network) = step.steer {
                self.steered.push((self.round, network));
                if self.reached[network.index()] {
                    self.be_on(network);
                }
            }
            if let Some(network) = step.forget {
                self.is_bad(network, None);
            }
            self.tales.extend(step.tale.map(|tale| (self.round, tale)));
            self.round += 1;
        }
    }

    /// The rounds between what was told, from the first on.
    fn pauses(&self) -> Vec<u64> {
        self.tales.windows(2).map(|two| two[1].0 - two[0].0).collect()
    }
}

#[test]
fn a_bad_link_is_left_tried_again_after_its_rest_and_rests_for_longer_each_time() {
    let mut bench = Bench::new(SickPolicy::Avoid);
    bench.run(5);
    assert!(bench.steered.is_empty());
    for _ in 0..4 {
        // It is as bad as ever, each time that it is used.
        bench.is_bad(Network::First, Some(LinkTrouble::Loss));
        while bench.choice.left().is_none() {
            bench.run(1);
        }
        while bench.choice.left().is_some() {
            bench.run(1);
        }
    }
    let kinds: Vec<bool> = bench
        .tales
        .iter()
        .map(|(_, tale)| matches!(tale, Tale::Left(_)))
        .collect();
    assert_eq!(kinds, [true, false, true, false, true, false, true, false]);
    let pauses = bench.pauses();
    let rests: Vec<u64> = pauses.iter().step_by(2).copied().collect();
    assert_eq!(rests, [61, 121, 241, 361], "and a round in which it moves");
    assert!(
        pauses.iter().skip(1).step_by(2).all(|used| *used >= STAY_ROUNDS),
        "{pauses:?}"
    );
}

#[test]
fn who_was_well_for_an_hour_has_a_clean_slate() {
    let mut bench = Bench::new(SickPolicy::Isolate);
    for _ in 0..2 {
        bench.is_bad(Network::First, Some(LinkTrouble::Late));
        while bench.tales.len().is_multiple_of(2) {
            bench.run(1);
        }
        while bench.choice.left().is_some() {
            bench.run(1);
        }
        bench.run(CLEAN_ROUNDS);
    }
    assert_eq!((bench.pauses()[0], bench.pauses()[2]), (61, 61));
}

#[test]
fn nothing_is_left_for_a_network_that_is_bad_too_or_cannot_be_had() {
    let mut bench = Bench::new(SickPolicy::Avoid);
    bench.is_bad(Network::First, Some(LinkTrouble::Loss));
    bench.seen.told[1] = used(bad(Network::Second, LinkTrouble::Late));
    bench.run(50);
    assert!(bench.steered.is_empty());
    bench.seen.told[1] = None;
    bench.reached[1] = false;
    bench.run(100);
    assert!(bench.tales.is_empty() && bench.choice.left().is_none());
    assert!((5..=12).contains(&bench.steered.len()), "{:?}", bench.steered);
}

#[test]
fn what_is_cut_is_left_with_any_policy_and_tried_each_minute() {
    for policy in [
        SickPolicy::Off,
        SickPolicy::Propose,
        SickPolicy::Avoid,
        SickPolicy::Isolate,
    ] {
        let mut bench = Bench::new(policy);
        bench.reached[0] = false;
        bench.be_on(Network::Second);
        bench.run(60);
        assert!(
            matches!(bench.tales[..], [(1001, Tale::Left(Left { link, own: true }))] if link.what == LinkTrouble::Cut),
            "{:?}",
            bench.tales
        );
        assert!((8..=10).contains(&bench.steered.len()), "{:?}", bench.steered);
        bench.reached[0] = true;
        bench.run(8);
        assert!(
            matches!(bench.tales[1..], [(_, Tale::Back(Network::First))]),
            "{:?}",
            bench.tales
        );
        assert!(bench.choice.left().is_none());
        // A network that comes and goes is tried ever less often.
        let mut pauses = Vec::new();
        for _ in 0..5 {
            bench.be_on(Network::Second);
            let before = bench.round;
            bench.reached[0] = false;
            bench.run(2);
            bench.reached[0] = true;
            while bench.seen.on[1] {
                bench.run(1);
            }
            pauses.push(bench.round - before);
            bench.run(3);
        }
        assert!(pauses.is_sorted() && pauses[4] >= 4 * pauses[0], "{pauses:?}");
    }
}

#[test]
fn a_second_network_that_is_cut_while_the_first_rests_is_left_for_it() {
    let mut bench = Bench::new(SickPolicy::Avoid);
    bench.is_bad(Network::First, Some(LinkTrouble::Loss));
    bench.run(2);
    assert_eq!(bench.choice.wanted(), Network::Second);
    bench.reached[1] = false;
    bench.be_on(Network::First);
    bench.is_bad(Network::First, None);
    bench.run(500);
    assert_eq!((bench.choice.wanted(), bench.seen.on), (Network::First, [true, false]));
    let last = bench.tales.last().map(|(_, tale)| *tale);
    assert!(
        matches!(last, Some(Tale::Left(left)) if left.link.network == Network::Second && left.link.what == LinkTrouble::Cut),
        "{last:?}"
    );
    assert!(
        bench.choice.left().is_none(),
        "what nobody goes by is not told of for ever"
    );
}

#[test]
fn connections_that_have_strayed_come_back() {
    let mut bench = Bench::new(SickPolicy::Off);
    bench.seen.on = [true, true];
    bench.run(1);
    assert_eq!(bench.steered, vec![(1000, Network::First)]);
    bench.seen.on = [true, true];
    bench.reached = [false, false];
    bench.run(20);
    assert!(
        (3..=5).contains(&bench.steered.len()),
        "once a minute: {:?}",
        bench.steered
    );
    assert!(bench.tales.is_empty());
}

#[test]
fn who_was_met_by_the_second_network_and_has_the_first_is_no_news() {
    let mut bench = Bench::new(SickPolicy::Isolate);
    bench.be_on(Network::Second);
    bench.run(20);
    assert_eq!((bench.seen.on, bench.steered.len()), ([true, false], 1));
    assert!(bench.tales.is_empty() && bench.choice.left().is_none());
}

#[test]
fn what_the_peer_has_left_is_not_tried_before_it_but_for_an_hour_at_most() {
    let mut bench = Bench::new(SickPolicy::Avoid);
    bench.seen.told[0] = left(bad(Network::First, LinkTrouble::Loss));
    bench.run(10);
    assert!(bench.choice.left().is_some());
    let left_at = bench.tales[0].0;
    bench.run(2 * REST_ROUNDS);
    assert!(bench.choice.left().is_some(), "the peer says still that it is bad");
    bench.seen.told[0] = None;
    bench.run(STAY_ROUNDS + 1);
    assert!(bench.choice.left().is_none());
    // One that says so for ever.
    let mut bench = Bench::new(SickPolicy::Avoid);
    bench.seen.told[0] = left(bad(Network::First, LinkTrouble::Loss));
    bench.run(LONGEST_REST_ROUNDS);
    assert!(bench.choice.left().is_some());
    bench.run(2 * STAY_ROUNDS + 10);
    let back = bench.tales.iter().find(|(_, tale)| matches!(tale, Tale::Back(_)));
    assert!(
        back.is_some_and(|(at, _)| *at >= left_at + LONGEST_REST_ROUNDS),
        "{:?}",
        bench.tales
    );
}

#[test]
fn what_the_peer_said_before_is_no_reason_to_leave_again_and_what_it_says_anew_is() {
    let mut bench = Bench::new(SickPolicy::Avoid);
    let said = bad(Network::First, LinkTrouble::Loss);
    bench.seen.told[0] = left(said);
    bench.run(LONGEST_REST_ROUNDS + 2 * STAY_ROUNDS + 10);
    assert!(matches!(
        bench.tales[..],
        [(_, Tale::Left(_)), (_, Tale::Back(Network::First))]
    ));
    bench.run(5 * STAY_ROUNDS);
    assert_eq!(
        (bench.tales.len(), bench.choice.left()),
        (2, None),
        "the peer rests for longer"
    );
    bench.seen.told[0] = left(BadLink { sent: 400, ..said });
    bench.run(5 * STAY_ROUNDS);
    assert_eq!(
        (bench.tales.len(), bench.choice.left()),
        (2, None),
        "it names another link for all that it has left"
    );
    bench.seen.told[0] = used(BadLink { lost: 70, ..said });
    bench.run(3);
    assert!(
        bench
            .choice
            .left()
            .is_some_and(|left| left.link.lost == 70 && !left.own)
    );
}

#[test]
fn what_is_about_to_be_well_is_not_left() {
    for what in [LinkTrouble::Loss, LinkTrouble::Late] {
        let mut bench = Bench::new(SickPolicy::Avoid);
        let ailing = bad(Network::First, what);
        let (lost, round_trip_us) = (0, 100);
        let mending = BadLink {
            lost,
            round_trip_us,
            ..ailing
        };
        bench.seen.own[0] = Some(mending);
        bench.run(20);
        assert!(bench.steered.is_empty(), "{what:?}");
        bench.seen.own[0] = Some(ailing);
        bench.run(1);
        assert_eq!(bench.steered.len(), 1, "{what:?}");
    }
}
