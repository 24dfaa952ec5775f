//! Limits of tenants and pools: what all volumes of one let pass together, by several gates, and who goes first.

use super::*;
use amita_qos::lease::MANDATE;
use amita_types::{NodeId, map};
use std::collections::BTreeMap;

const TENANT: &str = "tenant/acme";
const POOL: &str = "pool/main";

/// Gates whose asks come at once to the lenders of the volumes, and of a tenant and a pool; a record says who lends those.
struct Jointly {
    now: Time,
    gates: Vec<Gate>,
    volumes: Lender,
    limits: BTreeMap<VolumeId, Limits>,
    /// Who lends those of tenants and pools, one after the other; each with the term that the record had when it began, and the last moment at which it is reached.
    lenders: Vec<(u32, Lender)>,
    joints: BTreeMap<&'static str, Limits>,
    term: u32,
    /// Has nobody lent before the one of term 1?
    is_first: bool,
    passed: Vec<(Time, VolumeId, Op)>,
}

impl Jointly {
    fn new(gates: u64, joints: &[(&'static str, Limits)]) -> Jointly {
        let mut made = Jointly {
            now: ms(10_000),
            gates: (0..gates).map(|place| Gate::new(place, 5, Faults::NONE)).collect(),
            volumes: Lender::default(),
            limits: BTreeMap::new(),
            lenders: vec![(1, Lender::default())],
            joints: joints.iter().copied().collect(),
            term: 1,
            is_first: false,
            passed: Vec::new(),
        };
        for (name, limits) in joints {
            for gate in &mut made.gates {
                gate.set_joint(made.now, name, Some(limits));
            }
        }
        made
    }

    fn volume(&mut self, volume: VolumeId, own: Option<Limits>, joints: &[&str]) {
        for gate in &mut self.gates {
            gate.set_with(self.now, volume, own.as_ref(), Generation(3), joints);
        }
        self.limits.extend(own.map(|own| (volume, own)));
    }

    fn seat(term: u32) -> Seat {
        let generation = Generation(3);
        Seat {
            volume: VolumeId(99),
            generation,
            epoch: epoch(term, generation),
            is_first: false,
        }
    }

    /// An answer of the lender of the term that the asker knows.
    fn lend(&mut self, name: &str, asks: &Asks, term: u32) -> Answer {
        let (now, limits) = (self.now, self.joints[name]);
        let (_, lender) = self.lenders.iter_mut().find(|(of, _)| *of == term).unwrap();
        let seat = Seat {
            is_first: self.is_first && term == 1,
            ..Jointly::seat(term)
        };
        lender.ask_joint(now, name, seat, &limits, asks)
    }

    /// Each lender reads the record, as far as it is time to.
    fn read(&mut self) {
        for (term, lender) in &mut self.lenders {
            for (name, seat) in lender.next_to_read(self.now, 9) {
                lender.has_read(self.now, &name, &seat, *term == self.term);
            }
        }
    }

    fn settle(&mut self, term: u32) {
        self.read();
        for at in 0..self.gates.len() {
            self.gates[at].tick(self.now);
            while let Some((whose, asks)) = self.gates[at].next_asks() {
                let answer = match whose {
                    Whose::Volume(volume) => {
                        let limits = self.limits.get(&volume).copied().unwrap_or_default();
                        self.volumes
                            .ask(self.now, (volume, Generation(3)), true, &limits, &asks)
                    }
                    Whose::Joint(number) => {
                        let name = self.gates[at].joint_name(number).unwrap().clone();
                        // By the wire.
                        let payload = write_joint_asks(&name, &asks);
                        let (read, asks) = read_joint_asks(&payload).unwrap();
                        assert!(read == *name && read_asks(&payload).is_none());
                        self.lend(&name, &asks, term)
                    }
                };
                self.gates[at].answered(self.now, whose, Ok(answer));
            }
            while let Some(passage) = self.gates[at].next_passed() {
                self.passed.push((self.now, passage.volume, passage.op));
            }
        }
        self.read();
    }

    fn run(&mut self, until: Time) {
        while self.now < until {
            self.now = Time((self.now.0 + 1_000_000).min(until.0));
            self.settle(self.term);
        }
    }

    fn hold(&mut self, gate: usize, volume: VolumeId, op: Op, count: u64) {
        for tag in 0..count {
            self.gates[gate].hold(self.now, origin(1, tag, self.now), volume, op, Slice::default());
        }
    }

    /// How many of a volume's have passed since.
    fn passed_of(&self, volume: VolumeId, since: Time) -> usize {
        let of = |passed: &&(Time, VolumeId, Op)| passed.1 == volume && passed.0 > since;
        self.passed.iter().filter(of).count()
    }

    fn never_more(&self, limit: Limit, of: impl Fn(VolumeId) -> bool) {
        let mut leak = Leak::new(limit);
        for (at, volume, _) in &self.passed {
            if of(*volume) {
                leak.pour(*at, 1);
            }
        }
    }
}

#[test]
fn what_all_volumes_of_a_tenant_pass_is_no_more_than_its_limit_and_each_has_its_part() {
    let limits = iops(1_000, 202);
    let mut rig = Jointly::new(3, &[(TENANT, limits)]);
    // One of them may do less than its part.
    rig.volume(VolumeId(1), Some(iops(100, 12)), &[TENANT]);
    rig.volume(VolumeId(2), None, &[TENANT]);
    rig.volume(VolumeId(3), None, &[TENANT]);
    // It is under none.
    rig.volume(VolumeId(4), None, &[]);
    assert!(!rig.gates[0].holds(VolumeId(4)) && rig.gates[0].holds(VolumeId(2)));
    for gate in 0..3 {
        for volume in 1..=3 {
            rig.hold(gate, VolumeId(volume), read(4096), 4_000);
        }
    }
    // A mandate, and a lease, and half a second: then it runs.
    rig.run(ms(14_000));
    let since = rig.now;
    rig.run(ms(18_000));
    let each = [1, 2, 3].map(|volume| rig.passed_of(VolumeId(volume), since));
    let all: usize = each.iter().sum();
    assert!((3_800..=4_210).contains(&all), "{each:?} of 4,000");
    assert!((350..=420).contains(&each[0]), "{each:?}: one has 100 a second");
    assert!(each[1].abs_diff(each[2]) < 100, "{each:?}");
    rig.never_more(limits.operations.both.unwrap(), |_| true);
}

/// Two volumes are under a tenant and a pool each that want more than there is, one under both: it is not kept from passing for ever by those that are under one.
#[test]
fn who_needs_tokens_of_two_has_them_in_the_end() {
    let (tenant, pool) = (iops(500, 102), iops(300, 62));
    let mut rig = Jointly::new(2, &[(TENANT, tenant), (POOL, pool)]);
    let (both, of_tenant, of_pool) = (VolumeId(1), VolumeId(2), VolumeId(3));
    rig.volume(both, None, &[TENANT, POOL]);
    rig.volume(of_tenant, None, &[TENANT]);
    rig.volume(of_pool, None, &[POOL]);
    for gate in 0..2 {
        for volume in [both, of_tenant, of_pool] {
            rig.hold(gate, volume, write(4096), 4_000);
        }
    }
    rig.run(ms(14_000));
    let since = rig.now;
    rig.run(ms(18_000));
    let each = [both, of_tenant, of_pool].map(|volume| rig.passed_of(volume, since));
    // Its part of the pool is 150 a second.
    assert!(each[0] > 400, "{each:?}");
    assert!(each[0] + each[1] > 1_800 && each[0] + each[2] > 1_080, "{each:?}");
    rig.never_more(tenant.operations.both.unwrap(), |volume| volume != of_pool);
    rig.never_more(pool.operations.both.unwrap(), |volume| volume != of_tenant);
}

/// More volumes than are looked at at once stand in front of a tenant's line, and all of them wait for a pool that lets hardly anything pass.
#[test]
fn who_waits_for_a_pool_in_front_of_the_line_keeps_nobody_from_passing_behind() {
    for (in_front, behind) in [(80, &[200][..]), (300, &[150, 400]), (1_000, &[70, 500, 2_000])] {
        let limits = iops(1_000, 202);
        let mut rig = Jointly::new(1, &[(TENANT, limits), (POOL, iops(10, 3))]);
        for volume in (1..=in_front).filter(|volume| !behind.contains(volume)) {
            rig.volume(VolumeId(volume), None, &[TENANT, POOL]);
            rig.hold(0, VolumeId(volume), write(4096), 20);
        }
        // Their hosts have as much under way as they may: none comes that would be looked at by itself.
        for volume in behind {
            rig.volume(VolumeId(*volume), None, &[TENANT]);
            rig.hold(0, VolumeId(*volume), read(4096), 8_000);
        }
        rig.run(ms(14_000));
        let since = rig.now;
        rig.run(ms(18_000));
        let each: Vec<usize> = behind
            .iter()
            .map(|volume| rig.passed_of(VolumeId(*volume), since))
            .collect();
        let all: usize = each.iter().sum();
        assert!((3_000..=4_210).contains(&all), "{each:?} of 4,000 behind {in_front}");
        assert!(
            each.iter().all(|passed| *passed * behind.len() * 4 > all),
            "{each:?} behind {in_front}"
        );
        rig.never_more(limits.operations.both.unwrap(), |_| true);
    }
}

/// A tenant's bytes are wanted by small reads all the time, and by one large write of another volume.
#[test]
fn a_large_request_of_one_volume_passes_beside_small_ones_of_others() {
    let mut limits = Limits::default();
    limits.bytes.both = of(1 << 20, (1 << 17) + 2 * LARGEST);
    let mut rig = Jointly::new(1, &[(TENANT, limits)]);
    for volume in 1..=5 {
        rig.volume(VolumeId(volume), None, &[TENANT]);
        rig.hold(0, VolumeId(volume), read(4096), 2_000);
    }
    rig.volume(VolumeId(9), None, &[TENANT]);
    rig.run(ms(14_000));
    rig.hold(0, VolumeId(9), write(LARGEST as u32), 2);
    let since = rig.now;
    rig.run(ms(16_500));
    assert_eq!(rig.passed_of(VolumeId(9), since), 2);
}

#[test]
fn a_host_that_goes_keeps_nothing_from_others_and_limits_come_and_go() {
    let limits = iops(10, 3);
    let mut rig = Jointly::new(1, &[(TENANT, limits)]);
    rig.volume(VOLUME, None, &[TENANT]);
    rig.volume(OTHER, Some(iops(1_000, 200)), &[TENANT]);
    rig.hold(0, VOLUME, write(4096), 50);
    let gate = &mut rig.gates[0];
    gate.hold(rig.now, origin(2, 7, rig.now), OTHER, read(512), Slice::default());
    assert_eq!(gate.counts_of(VOLUME).unwrap().waiting, 50);
    gate.cancel(&[FrontId(1)]);
    rig.run(ms(14_000));
    assert_eq!((rig.passed_of(VOLUME, ms(0)), rig.passed_of(OTHER, ms(0))), (0, 1));
    rig.hold(0, VOLUME, write(4096), 50);
    rig.hold(0, OTHER, write(4096), 50);
    rig.run(ms(14_100));
    let waiting = |rig: &Jointly| {
        let of = |volume| rig.gates[0].counts_of(volume).map(|counts| counts.waiting);
        (of(VOLUME), of(OTHER))
    };
    assert!(waiting(&rig).0.is_some_and(|waiting| waiting > 40));
    let (_, _, counts) = rig.gates[0].joint_counts().next().unwrap();
    assert_eq!(counts.waiting, 2);
    // One has only its own from now on, and the other none at all.
    rig.gates[0].set_joint(rig.now, TENANT, None);
    rig.run(ms(14_300));
    assert_eq!(waiting(&rig), (None, Some(0)));
    assert!(!rig.gates[0].holds(VOLUME) && rig.gates[0].joint_counts().next().is_none());
}

/// Another volume's owner lends from now on; the one before does not know, and gates that do not either ask it.
#[test]
fn of_two_that_lend_one_after_the_other_no_more_passes_than_the_limit() {
    let limits = iops(1_000, 300);
    let mut rig = Jointly::new(2, &[(TENANT, limits)]);
    rig.volume(VOLUME, None, &[TENANT]);
    rig.hold(0, VOLUME, read(4096), 9_000);
    rig.hold(1, VOLUME, read(4096), 9_000);
    rig.run(ms(15_000));
    let before = rig.passed.len();
    assert!(before > 1_500, "{before}");
    let changed = rig.now;
    rig.term = 2;
    rig.lenders.push((2, Lender::default()));
    while rig.now < ms(22_000) {
        rig.now = Time(rig.now.0 + 1_000_000);
        // The first gate hears late.
        let hears = rig.now > changed.plus(MANDATE + MANDATE / 2);
        rig.settle(if hears { 2 } else { 1 });
        if hears {
            continue;
        }
        // The second at once, and asks by itself.
        let asks = (
            0,
            Ask {
                epoch: epoch(2, Generation(3)),
                holder: amita_qos::lease::HolderId { place: 9, session: 1 },
                number: rig.now.0,
                heard: 0,
                taken: 0,
                spent: 0,
                gone: 0,
                want: 1,
                least: 1,
                is_long: false,
                sent: rig.now,
            },
        );
        rig.lend(TENANT, &vec![(2, asks.1)], 2);
    }
    let after = rig.passed.len() - before;
    assert!(after > 3_000, "{after}: the second one lends");
    rig.never_more(limits.operations.both.unwrap(), |_| true);
}

/// Of a running tenant nothing stands still because it is limited now.
#[test]
fn who_lends_first_of_all_waits_for_nobody() {
    for is_first in [true, false] {
        let mut rig = Jointly::new(1, &[(TENANT, iops(1_000, 202))]);
        rig.is_first = is_first;
        rig.volume(VOLUME, None, &[TENANT]);
        rig.hold(0, VOLUME, read(4096), 1);
        rig.run(ms(10_200));
        assert_eq!(
            rig.passed_of(VOLUME, ms(0)),
            usize::from(is_first),
            "another may lend for a mandate"
        );
        rig.run(ms(12_500));
        assert_eq!(rig.passed_of(VOLUME, ms(0)), 1);
        // A program of before has changed the limits, and left out of the record what it does not know.
        rig.is_first = false;
        rig.hold(0, VOLUME, read(4096), 1);
        rig.run(ms(12_700));
        assert_eq!(rig.passed_of(VOLUME, ms(0)), 2);
    }
}

#[test]
fn the_first_seat_is_known_by_its_term_and_by_the_generation_of_its_volume() {
    let volume = |generation: u32, owner: Option<u32>| map::Volume {
        generation: Generation(generation),
        owner: owner.map(NodeId),
        ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
    };
    let is_first = |record: &map::JointLimits, generation| {
        let seat = Seat::of(record, VOLUME, Generation(generation)).expect("it is the seat");
        seat.is_first
    };
    let new = map::JointLimits::default();
    let open = given_to(&new, &volume(3, Some(1)));
    assert_eq!((open.seat, open.term), (Some(VOLUME), 1));
    assert!(is_first(&open, 3) && !is_first(&open, 4) && Seat::of(&open, OTHER, Generation(3)).is_none());
    // Whoever opens it raises its generation.
    let closed = given_to(&new, &volume(3, None));
    assert!(is_first(&closed, 4) && !is_first(&closed, 3) && !is_first(&closed, 5));
    let next = given_to(&open, &volume(3, Some(1)));
    assert!(next.term == 2 && next.first.is_none() && !is_first(&next, 3));
}

/// Whoever lends for a tenant is out of reach of this gateway alone; the volumes that wait may be served all the same.
#[test]
fn a_seat_that_is_out_of_reach_ends_only_what_has_waited_as_long_as_for_an_owner() {
    let mut gate = Gate::new(0, 5, Faults::NONE);
    let now = ms(10_000);
    gate.set_joint(now, TENANT, Some(&iops(10, 1)));
    gate.set_with(now, VOLUME, None, Generation(3), &[TENANT]);
    let hold = |gate: &mut Gate, tag, at| gate.hold(at, origin(1, tag, at), VOLUME, read(512), Slice::default());
    hold(&mut gate, 1, now);
    let (whose, _) = gate.next_asks().expect("it asks");
    let Whose::Joint(number) = whose else {
        panic!("{whose:?}")
    };
    hold(&mut gate, 2, ms(15_000));
    let (mut gave_up, mut ended) = (Vec::new(), Vec::new());
    for at in (10_000..20_000).step_by(100) {
        let at = ms(at);
        gate.tick(at);
        if at > now && gate.next_asks().is_none() {
            continue;
        }
        gate.answered(at, whose, Err(IoError::Unavailable));
        if gate.gives_up(at, number) {
            gave_up.push(at.0 / 1_000_000);
        }
        ended.extend(std::iter::from_fn(|| gate.next_ended()).map(|(origin, _)| (at.0 / 1_000_000, origin.tag)));
    }
    assert_eq!(
        gave_up,
        [14_000, 18_000],
        "it is given to another one before anything ends"
    );
    assert_eq!(ended, [(18_000, 1)], "the later one has its own time");
}

/// Another gateway has noticed it first, and given the seat to another volume.
#[test]
fn a_seat_that_another_gateway_has_given_away_is_asked_at_once_and_has_its_own_time() {
    let mut gate = Gate::new(0, 5, Faults::NONE);
    let start = ms(10_000);
    gate.set_joint(start, TENANT, Some(&iops(10, 1)));
    gate.set_seat(start, TENANT, 1, Some(VolumeId(98)));
    gate.set_with(start, VOLUME, None, Generation(3), &[TENANT]);
    gate.hold(start, origin(1, 1, start), VOLUME, read(512), Slice::default());
    let (mut at, mut failed) = (start, Vec::new());
    let whose = loop {
        gate.tick(at);
        if let Some((whose, _)) = gate.next_asks() {
            gate.answered(at, whose, Err(IoError::Unavailable));
            failed.push(at);
            if failed.len() == 6 {
                break whose;
            }
        }
        at = gate.deadline().expect("it asks again");
    };
    let Whose::Joint(number) = whose else {
        panic!("{whose:?}")
    };
    // A quarter of a lease later.
    let soon = at.plus(Duration::from_millis(13));
    gate.set_seat(soon, TENANT, 1, Some(VolumeId(98)));
    gate.tick(soon);
    assert!(gate.next_asks().is_none(), "it is the same one");
    gate.set_seat(soon, TENANT, 2, Some(VolumeId(99)));
    gate.tick(soon);
    assert!(gate.next_asks().is_some(), "another one");
    gate.answered(soon, whose, Err(IoError::Unavailable));
    let late = start.plus(Duration::from_millis(4_100));
    assert!(
        !gate.gives_up(late, number),
        "the one before was out of reach for that long"
    );
    assert!(gate.gives_up(soon.plus(Duration::from_secs(4)), number));
}

/// Each ask goes through the forwarder, which looks for the seat's owner. Another request that comes is no reason to ask sooner.
#[test]
fn a_seat_that_is_out_of_reach_is_asked_less_and_less_often_until_there_is_another_one() {
    let mut gate = Gate::new(0, 5, Faults::NONE);
    let start = ms(10_000);
    gate.set_joint(start, TENANT, Some(&iops(10, 1)));
    gate.set_with(start, VOLUME, None, Generation(3), &[TENANT]);
    let hold = |gate: &mut Gate, tag, at| gate.hold(at, origin(1, tag, at), VOLUME, read(512), Slice::default());
    hold(&mut gate, 1, start);
    let (mut at, mut tag, mut asked) = (start, 1, Vec::new());
    let number = loop {
        gate.tick(at);
        if let Some((whose, _)) = gate.next_asks() {
            let Whose::Joint(number) = whose else {
                panic!("{whose:?}")
            };
            asked.push(at);
            gate.answered(at, whose, Err(IoError::Unavailable));
            if gate.gives_up(at, number) {
                break number;
            }
            tag += 1;
            hold(&mut gate, tag, at);
            assert!(gate.next_asks().is_none());
        }
        at = gate.deadline().expect("it asks again");
    };
    let pauses: Vec<u128> = asked.windows(2).map(|two| two[1].since(two[0]).as_millis()).collect();
    assert_eq!(pauses[..9], [12, 24, 48, 96, 192, 384, 400, 400, 400]);
    assert_eq!(at, ms(14_000), "it is given to another one no later for that");
    assert!(pauses.len() < 20, "{pauses:?}");
    // The other one is asked at once, and whoever has answered is.
    let soon = at.plus(Duration::from_millis(13));
    gate.tick(soon);
    let (whose, asks) = gate.next_asks().expect("it is asked");
    gate.answered(soon, whose, Err(IoError::Unavailable));
    let later = soon.plus(Duration::from_millis(13));
    gate.tick(later);
    assert!(gate.next_asks().is_some());
    let answer = Answer {
        epoch: asks[0].1.epoch,
        sent: later,
        grants: Vec::new(),
        open: Vec::new(),
    };
    gate.answered(later, Whose::Joint(number), Ok(answer));
    let soon = later.plus(Duration::from_millis(13));
    gate.tick(soon);
    let (whose, _) = gate.next_asks().expect("it is asked again");
    gate.answered(soon, whose, Err(IoError::Unavailable));
    assert!(
        gate.deadline()
            .is_some_and(|at| at <= soon.plus(Duration::from_millis(13)))
    );
}
