//! Which step is taken in which state, with a fake of the other end and of what is done to volumes. The mirror has no volumes where that is not what
//! is tried (`volumes.rs`): all of them are closed, open and sealed then, as the record wants.

mod times;
mod volumes;

use super::*;
use crate::commands::mirror::link::Renewed;
use crate::commands::mirror::wire::Reader;
use amita_api::mirror::LinkVolume;
use amita_metadata::Call;
use amita_metadata::model::State;
use amita_types::map::{self, MirrorPass, MirrorPeer, MirrorVolume, Paused, Point, Returning};
use amita_types::{ClusterId, MirrorId};
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;
use std::sync::Mutex;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn name(epoch: u64, number: u64) -> PointName {
    PointName {
        epoch: MirrorEpoch(epoch),
        number,
    }
}

/// Cut so many seconds ago.
fn point(of: PointName, ago: u64) -> Point {
    Point {
        name: of,
        cut_at: NOW.as_secs() - ago,
        snapshots: format!("mirror-dr-{of}"),
        arrived_at: None,
    }
}

fn standing(role: MirrorRole, epoch: u64, points: &[Point]) -> Standing {
    Standing {
        role,
        epoch: MirrorEpoch(epoch),
        points: points.to_vec(),
        ..Standing::default()
    }
}

fn record(own: Standing) -> Mirror {
    Mirror {
        id: MirrorId(77),
        name: "dr".to_owned(),
        // Whoever follows has not taken the epoch that it is in.
        odd: own.role == MirrorRole::Secondary || own.epoch.0 % 2 == 1,
        standing: own,
        number: 0,
        cutting: None,
        begun: None,
        pass: None,
        returning: None,
        fresh: false,
        joining: false,
        leaving: false,
        split: false,
        volumes: Vec::new(),
        peer: MirrorPeer::default(),
        token_ends_at: None,
        seen: None,
        interval_s: 60,
        keep: 2,
        limit_bytes_per_s: None,
        alert_after_s: None,
        never_deposed: false,
        paused: None,
        ails: None,
    }
}

/// This cluster's metadata, and the claim.
fn meta(of: &Mirror) -> (Mutex<State>, u64) {
    let meta = Mutex::new(State::default());
    let put = |key: String, value: Vec<u8>| meta.txn(&Call::put(key, value)).expect("a model").revision;
    put(map::mirror_key("dr"), serde_json::to_vec(of).expect("JSON"));
    let claim = put(map::mirror_runner_key("dr"), b"\"n1\"".to_vec());
    (meta, claim)
}

fn now_is(meta: &dyn Transact) -> Mirror {
    admin::mirror(meta, "dr").expect("the record")
}

/// What the time is: it passes where something takes some.
struct Time {
    wall: Cell<Duration>,
    counted: Cell<Duration>,
}

impl Time {
    fn is(now: Duration) -> Time {
        Time {
            wall: Cell::new(now),
            counted: Cell::new(now),
        }
    }

    fn pass(&self, time: Duration) {
        self.wall.set(self.wall.get() + time);
        self.counted.set(self.counted.get() + time);
    }
}

impl Clock for Time {
    fn wall(&self) -> Duration {
        self.wall.get()
    }

    fn counted(&self) -> Duration {
        self.counted.get()
    }
}

#[derive(Default)]
struct There {
    /// None: it does not answer.
    standing: Option<Standing>,
    /// It says nothing for so long first.
    slow: Option<(Rc<Time>, Duration)>,
    /// It is not waited for.
    is_called_off: Cell<bool>,
    cut: Option<Point>,
    /// It cuts none: it has as many as can be.
    is_full: bool,
    looks: Cell<u32>,
    cuts: Cell<u32>,
}

impl There {
    fn is(standing: Standing) -> There {
        There {
            standing: Some(standing),
            ..There::default()
        }
    }
}

impl Far for There {
    fn look(&self) -> Result<MirrorLink> {
        self.looks.set(self.looks.get() + 1);
        if let Some((time, takes)) = &self.slow {
            time.pass(*takes);
        }
        if self.is_called_off.get() {
            return Err(Failure::interrupted());
        }
        let standing = self.standing.clone();
        Ok(MirrorLink {
            cluster: ClusterId(9),
            mirror: MirrorId(77),
            clock: NOW.as_secs(),
            standing: standing.ok_or_else(|| Failure::new("nobody is there"))?,
            volumes: vec![LinkVolume {
                name: "db".to_owned(),
                size_bytes: 1 << 30,
                encrypted: false,
            }],
            interval_s: 60,
        })
    }

    fn cut(&self, _: MirrorEpoch) -> Result<Option<Point>> {
        self.cuts.set(self.cuts.get() + 1);
        match self.is_full {
            true => Err(Failure::new("it has 256 points").kind(Kind::Conflict)),
            false => Ok(self.cut.clone()),
        }
    }

    fn renew(&self) -> Result<Renewed> {
        Err(Failure::new("no token is renewed in these tests"))
    }

    fn data(&self, _: PointName, _: &str, _: Option<PointName>, _: u64) -> Result<Reader<Box<dyn Read>>> {
        Err(Failure::new("no data is asked for in these tests"))
    }
}

struct Did {
    has_room: bool,
    /// A revert takes so long; none: it fails.
    reverts: Option<(Rc<Time>, Duration)>,
    done: RefCell<Vec<String>>,
}

impl Did {
    fn new() -> Did {
        Did {
            has_room: true,
            reverts: None,
            done: RefCell::default(),
        }
    }
}

impl Hands for Did {
    fn may_work(&mut self) -> bool {
        self.has_room
    }

    fn bring(&mut self, record: &Mirror, _: &dyn Far, sizes: &[u64]) -> Result<()> {
        assert_eq!(sizes.len(), record.volumes.len());
        let pass = record.pass.as_ref().expect("a pass");
        let base = pass.base.map_or_else(|| "all".to_owned(), |base| base.to_string());
        self.done.borrow_mut().push(format!("bring {} since {base}", pass.to));
        Ok(())
    }

    fn revert(&mut self, _: &Mirror, volume: VolumeId, to: &Point, keep: bool) -> Result<()> {
        self.done
            .borrow_mut()
            .push(format!("revert {volume} to {} {keep}", to.name));
        let Some((time, takes)) = &self.reverts else {
            return Err(Failure::new("as planned"));
        };
        time.pass(*takes);
        Ok(())
    }
}

/// One turn of an end that is this, with another end that is that: what came of it, the record behind it, and what was done to volumes.
fn turned(own: &Mirror, there: &There) -> (Result<Turned>, Mirror, Vec<String>) {
    let (meta, claim) = meta(own);
    let mut hands = Did::new();
    let done = Turn::new("dr", claim).turn(&meta, Some(there), &mut hands, &Time::is(NOW));
    (done, now_is(&meta), hands.done.into_inner())
}

const EVERY: Turned = Turned::Rest(LOOK);

#[test]
fn a_primary_looks_and_serves_also_where_nobody_answers() {
    let own = record(standing(
        MirrorRole::Primary,
        2,
        &[point(name(2, 1), 90), point(name(2, 2), 30)],
    ));
    let (done, after, _) = turned(&own, &There::default());
    assert_eq!(done, Ok(EVERY));
    assert!(after.seen.is_none());
    // What the other end has said that it is at lets the older ones go.
    let other = Standing {
        point: Some(name(2, 2)),
        ..standing(MirrorRole::Secondary, 2, &[point(name(2, 2), 30)])
    };
    let (done, after, _) = turned(&own, &There::is(other));
    assert_eq!(done, Ok(EVERY));
    assert_eq!(after.standing.points.len(), 1);
    assert_eq!(after.seen.map(|seen| seen.clock), Some(NOW.as_secs()));
}

#[test]
fn who_hears_of_a_later_epoch_closes_and_waits_or_goes_on_where_that_was_said() {
    let own = record(standing(MirrorRole::Primary, 2, &[point(name(2, 1), 90)]));
    let there = There::is(standing(MirrorRole::Primary, 3, &[]));
    let (done, after, _) = turned(&own, &there);
    assert_eq!((done, after.standing.role), (Ok(Turned::Again), MirrorRole::Deposed));
    let (done, after, _) = turned(&after, &there);
    assert_eq!((done, after.standing.role), (Ok(EVERY), MirrorRole::Deposed));
    let stays = Mirror {
        never_deposed: true,
        ..own
    };
    let (done, after, _) = turned(&stays, &there);
    assert_eq!((done, after.standing.role), (Ok(EVERY), MirrorRole::Primary));
}

#[test]
fn one_that_is_demoted_cuts_its_last_point_without_the_other_end() {
    let own = record(standing(MirrorRole::Demoting, 2, &[]));
    let (done, after, _) = turned(&own, &There::default());
    assert_eq!(done, Ok(Turned::Again));
    assert_eq!(after.standing.role, MirrorRole::Secondary);
    assert!(after.standing.handed);
    // It is not followed yet, and follows nobody.
    let (done, after, did) = turned(&after, &There::is(standing(MirrorRole::Secondary, 2, &[])));
    assert_eq!((done, did.len()), (Ok(EVERY), 0));
    // The other one was promoted at that point.
    let at = after.standing.points.clone();
    let (done, after, _) = turned(&after, &There::is(standing(MirrorRole::Promoting, 3, &at)));
    assert_eq!(
        (done, after.standing.epoch),
        (Ok(EVERY), MirrorEpoch(2)),
        "it serves nothing yet"
    );
    let (done, after, _) = turned(&after, &There::is(standing(MirrorRole::Primary, 3, &at)));
    assert_eq!((done, after.standing.epoch), (Ok(Turned::Again), MirrorEpoch(3)));
    assert!(!after.standing.handed);
}

#[test]
fn one_that_is_promoted_opens_and_goes_back_first_where_a_pass_was_begun() {
    let at = Standing {
        point: Some(name(2, 1)),
        ..standing(MirrorRole::Promoting, 3, &[point(name(2, 1), 90)])
    };
    let own = record(at);
    let (done, after, did) = turned(&own, &There::default());
    assert_eq!((done, after.standing.role), (Ok(Turned::Again), MirrorRole::Primary));
    assert!(did.is_empty());
    let begun = Mirror {
        begun: Some(name(2, 2)),
        volumes: vec![MirrorVolume {
            name: "db".to_owned(),
            id: VolumeId(5),
        }],
        ..own
    };
    let (done, after, did) = turned(&begun, &There::default());
    assert!(done.is_err_and(|why| why.what == "as planned"));
    assert_eq!(
        (did, after.standing.role),
        (vec!["revert 5 to 2-1 false".to_owned()], MirrorRole::Promoting)
    );
}

#[test]
fn one_that_has_gone_back_follows_at_the_point() {
    let own = Mirror {
        returning: Some(Returning {
            to: Some(name(2, 1)),
            done: vec![VolumeId(5)],
            were: Vec::new(),
            given_up: false,
        }),
        ..record(standing(
            MirrorRole::Deposed,
            2,
            &[point(name(2, 1), 90), point(name(2, 2), 30)],
        ))
    };
    let own = Mirror {
        seen: saw(standing(MirrorRole::Primary, 3, &[point(name(2, 1), 90)])),
        ..own
    };
    let (done, after, _) = turned(&own, &There::default());
    assert_eq!(done, Ok(Turned::Again));
    assert_eq!(
        (after.standing.role, after.standing.point),
        (MirrorRole::Secondary, Some(name(2, 1)))
    );
    assert_eq!(after.standing.epoch, MirrorEpoch(3));
}

/// What was seen of the other end.
fn saw(standing: Standing) -> Option<Seen> {
    Some(Seen {
        standing,
        at: NOW.as_secs(),
        clock: NOW.as_secs(),
    })
}

/// A secondary at point 2-1, which follows.
fn far_end() -> Mirror {
    record(Standing {
        point: Some(name(2, 1)),
        ..standing(MirrorRole::Secondary, 2, &[point(name(2, 1), 90)])
    })
}

#[test]
fn a_secondary_has_a_point_cut_when_its_interval_is_over_and_brings_it() {
    let own = far_end();
    let primary = |points: &[Point]| standing(MirrorRole::Primary, 2, points);
    let (old, new) = (point(name(2, 1), 90), point(name(2, 2), 5));
    // Its own is old: another one is cut.
    let there = There::is(primary(std::slice::from_ref(&old)));
    let (done, _, _) = turned(&own, &there);
    assert_eq!((done, there.cuts.get()), (Ok(Turned::Rest(SOON)), 1));
    // It is there: it is looked at, and brought.
    let there = There {
        cut: Some(new.clone()),
        ..There::is(primary(std::slice::from_ref(&old)))
    };
    assert_eq!(turned(&own, &there).0, Ok(Turned::Again));
    let there = There::is(primary(&[old.clone(), new.clone()]));
    let (done, after, did) = turned(&own, &there);
    assert_eq!((done, did), (Ok(Turned::Again), vec!["bring 2-2 since 2-1".to_owned()]));
    assert_eq!((there.cuts.get(), after.begun), (0, Some(name(2, 2))));
    // What was begun goes on, and nothing newer is begun for it.
    let there = There::is(primary(&[old.clone(), new.clone(), point(name(2, 3), 1)]));
    let (_, _, did) = turned(&after, &there);
    assert_eq!(did, ["bring 2-2 since 2-1"]);
    // Where its point is gone there, it is another pass.
    let there = There::is(primary(&[old, point(name(2, 3), 1)]));
    let (_, _, did) = turned(&after, &there);
    assert_eq!(did, ["bring 2-3 since 2-1"]);
}

/// Where nobody brings them, points are not to become more until there is no room for one.
#[test]
fn a_point_that_is_newer_is_brought_however_old_it_is_before_another_one_is_cut() {
    let own = far_end();
    let (old, other) = (point(name(2, 1), 300), point(name(2, 2), 200));
    let there = There {
        cut: Some(point(name(2, 3), 0)),
        ..There::is(standing(MirrorRole::Primary, 2, &[old, other]))
    };
    let (done, _, did) = turned(&own, &there);
    assert_eq!((done, did), (Ok(Turned::Again), vec!["bring 2-2 since 2-1".to_owned()]));
    assert_eq!(there.cuts.get(), 0);
}

#[test]
fn a_point_is_cut_by_who_has_room_to_bring_it() {
    let there = There::is(standing(MirrorRole::Primary, 2, &[point(name(2, 1), 90)]));
    let (meta, claim) = meta(&far_end());
    let mut hands = Did {
        has_room: false,
        ..Did::new()
    };
    let done = Turn::new("dr", claim).turn(&meta, Some(&there), &mut hands, &Time::is(NOW));
    assert_eq!((done, there.cuts.get()), (Ok(Turned::NoRoom(ROOM)), 0));
}

#[test]
fn where_no_more_can_be_cut_what_is_there_is_looked_at_and_brought() {
    let (meta, claim) = meta(&far_end());
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    let (old, new) = (point(name(2, 1), 90), point(name(2, 2), 80));
    let alone = There::is(standing(MirrorRole::Primary, 2, std::slice::from_ref(&old)));
    assert_eq!(
        turn.turn(&meta, Some(&alone), &mut hands, &Time::is(NOW)),
        Ok(Turned::Rest(SOON))
    );
    // What was seen is a second old: others are there by now.
    let full = There {
        is_full: true,
        ..There::is(standing(MirrorRole::Primary, 2, &[old.clone(), new]))
    };
    let later = NOW + Duration::from_secs(1);
    assert_eq!(
        turn.turn(&meta, Some(&full), &mut hands, &Time::is(later)),
        Ok(Turned::Again)
    );
    assert_eq!((full.cuts.get(), full.looks.get()), (1, 0));
    assert_eq!(
        turn.turn(&meta, Some(&full), &mut hands, &Time::is(later)),
        Ok(Turned::Again)
    );
    assert_eq!(hands.done.into_inner(), ["bring 2-2 since 2-1"]);
    // Where there is nothing newer, it says so.
    let full = There {
        is_full: true,
        ..There::is(standing(MirrorRole::Primary, 2, &[old]))
    };
    let (done, _, _) = turned(&far_end(), &full);
    assert!(done.is_err_and(|why| why.what.contains("256")));
}

#[test]
fn who_does_not_show_the_point_that_it_says_it_has_cut_is_not_asked_again_and_again() {
    let there = There {
        cut: Some(point(name(2, 2), 0)),
        ..There::is(standing(MirrorRole::Primary, 2, &[point(name(2, 1), 90)]))
    };
    let (meta, claim) = meta(&far_end());
    let mut turn = Turn::new("dr", claim);
    let mut done = Vec::new();
    for _ in 0..4 {
        done.push(turn.turn(&meta, Some(&there), &mut Did::new(), &Time::is(NOW)));
    }
    assert_eq!(done, [Ok(Turned::Again), Ok(EVERY), Ok(EVERY), Ok(EVERY)]);
    assert_eq!(there.cuts.get(), 2);
}

/// Its clock was set back by hours: the newest point is of the future, and no reason to have none for as long.
#[test]
fn a_point_of_the_future_is_not_young() {
    let future = Point {
        cut_at: NOW.as_secs() + 7200,
        ..point(name(2, 1), 0)
    };
    let there = There::is(standing(MirrorRole::Primary, 2, &[future]));
    let (done, _, _) = turned(&far_end(), &there);
    assert_eq!((done, there.cuts.get()), (Ok(Turned::Rest(SOON)), 1));
}

/// What the other end shows cannot be noted: what this end has to do by itself is done all the same.
#[test]
fn what_is_seen_and_cannot_be_noted_is_as_unheard() {
    struct Refusing(Mutex<State>);
    impl Transact for Refusing {
        fn txn(&self, call: &Call) -> std::result::Result<amita_metadata::Reply, amita_metadata::Error> {
            let notes = |op: &amita_metadata::Op| matches!(op, amita_metadata::Op::Put { key, .. } if *key == map::mirror_seen_key("dr"));
            match call.then.iter().any(notes) {
                true => Err(amita_metadata::Error::Unavailable {
                    what: "as planned".to_owned(),
                    endpoints: "none".to_owned(),
                }),
                false => self.0.txn(call),
            }
        }
    }
    let many: Vec<Point> = (1..=20).map(|number| point(name(2, number), 100 - number)).collect();
    let (meta, claim) = meta(&record(standing(MirrorRole::Primary, 2, &many)));
    let meta = Refusing(meta);
    let there = There::is(standing(MirrorRole::Secondary, 2, &[]));
    let mut turn = Turn::new("dr", claim);
    let done = turn.turn(&meta, Some(&there), &mut Did::new(), &Time::is(NOW));
    assert_eq!((done, there.looks.get()), (Ok(EVERY), 1));
    let after = now_is(&meta);
    assert!(
        after.standing.points.len() < many.len() && after.seen.is_none(),
        "{after:?}"
    );
    assert!(turn.unheard().is_some_and(|why| why.what.contains("as planned")) && !turn.is_heard());
}

#[test]
fn who_has_the_newest_point_asks_no_oftener_than_it_looks() {
    let own = far_end();
    let old = point(name(2, 1), 90);
    let there = There {
        cut: Some(old.clone()),
        ..There::is(standing(MirrorRole::Primary, 2, std::slice::from_ref(&old)))
    };
    let (meta, claim) = meta(&own);
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    for second in 0..4 {
        let done = turn.turn(
            &meta,
            Some(&there),
            &mut hands,
            &Time::is(NOW + Duration::from_secs(second)),
        );
        assert_eq!(done, Ok(EVERY));
    }
    assert_eq!((there.looks.get(), there.cuts.get()), (1, 1));
}

#[test]
fn a_secondary_stands_still_where_it_is_paused_and_says_so_where_nobody_answers() {
    let paused = Mirror {
        paused: Some(Paused {
            by: "somebody".to_owned(),
            at: 1,
        }),
        ..far_end()
    };
    let there = There::is(standing(MirrorRole::Primary, 2, &[point(name(2, 2), 5)]));
    let (done, after, did) = turned(&paused, &there);
    assert_eq!((done, did.len(), after.pass), (Ok(EVERY), 0, None));
    let known = now_is(&{
        let (meta, claim) = meta(&far_end());
        let done = Turn::new("dr", claim).turn(&meta, Some(&there), &mut Did::new(), &Time::is(NOW));
        assert_eq!(done, Ok(Turned::Again));
        meta
    });
    assert!(known.seen.is_some());
    let (done, _, _) = turned(&known, &There::default());
    assert!(done.is_err_and(|why| why.what.contains("nobody")));
}

#[test]
fn nothing_is_begun_without_room_nor_by_who_has_lost_the_claim() {
    let there = There::is(standing(
        MirrorRole::Primary,
        2,
        &[point(name(2, 1), 90), point(name(2, 2), 5)],
    ));
    let (meta, claim) = meta(&far_end());
    let mut hands = Did {
        has_room: false,
        ..Did::new()
    };
    let done = Turn::new("dr", claim).turn(&meta, Some(&there), &mut hands, &Time::is(NOW));
    assert_eq!((done, now_is(&meta).begun), (Ok(Turned::NoRoom(ROOM)), None));
    let done = Turn::new("dr", claim + 100).turn(&meta, Some(&there), &mut Did::new(), &Time::is(NOW));
    assert_eq!(done, Ok(Turned::Lost));
    let gone = Turn::new("none", claim).turn(&meta, Some(&there), &mut Did::new(), &Time::is(NOW));
    assert_eq!(gone, Ok(Turned::Gone));
}

#[test]
fn a_handed_point_is_brought_and_nothing_is_cut_there() {
    let last = point(name(2, 2), 500);
    let other = Standing {
        handed: true,
        point: Some(last.name),
        ..standing(MirrorRole::Secondary, 2, &[point(name(2, 1), 900), last])
    };
    let there = There::is(other);
    let (_, after, did) = turned(&far_end(), &there);
    assert_eq!((did, there.cuts.get()), (vec!["bring 2-2 since 2-1".to_owned()], 0));
    let arrived = Mirror {
        standing: Standing {
            point: Some(name(2, 2)),
            ..after.standing.clone()
        },
        pass: None::<MirrorPass>,
        ..after
    };
    let (done, _, did) = turned(&arrived, &there);
    assert_eq!((done, did.len(), there.cuts.get()), (Ok(EVERY), 0, 0));
}

#[test]
fn sizes_are_in_the_order_of_the_mirror_and_a_volume_that_is_not_there_is_told() {
    let mut turn = Turn::new("dr", 1);
    turn.link = There::is(Standing::default()).look().ok();
    let named = |names: &[&str]| Mirror {
        volumes: names
            .iter()
            .map(|name| MirrorVolume {
                name: (*name).to_owned(),
                id: VolumeId(1),
            })
            .collect(),
        ..far_end()
    };
    assert_eq!(turn.sizes(&named(&["db"])), Ok(vec![1 << 30]));
    assert!(
        turn.sizes(&named(&["db", "log"]))
            .is_err_and(|why| why.what.contains("log"))
    );
}
