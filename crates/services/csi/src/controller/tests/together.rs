//! Several controllers at one time, as when another one begins to lead: their requests in every order, or in every order with so many changes from one to the
//! other, and also where the answer of one is lost. Who is told to come again comes at once, and then when the others are through.

use super::group::{take_both, two};
use super::publish::{ONE, TWO, publish, unpublish};
use super::snapshot::drop_snapshot;
use super::*;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Who asks so often has no end.
const MOST_TRIES: usize = 10;
/// As many requests as any of these calls makes, at least.
const REQUESTS: usize = 8;
/// No scene has so many orders.
const MOST_ORDERS: usize = 400_000;

/// What a call has answered in the end.
type Outcome<T> = Rc<RefCell<Option<Result<T, Status>>>>;

/// Who is at work.
struct Actor<'a> {
    run: Pin<Box<dyn Future<Output = ()> + 'a>>,
    /// Until another one is through.
    waits: Rc<Cell<bool>>,
}

/// A call that is sent again until it is answered for good.
fn caller<'a, T: 'a>(
    outcome: &Outcome<T>,
    fake: Fake,
    call: impl AsyncFn(&Fake) -> Result<T, Status> + 'a,
) -> Actor<'a> {
    let waits = Rc::new(Cell::new(false));
    let (own, outcome) = (waits.clone(), outcome.clone());
    let run = Box::pin(async move {
        for tries in 0..MOST_TRIES {
            let said = call(&fake).await;
            let comes_again = [Code::Aborted, Code::Unavailable, Code::FailedPrecondition];
            if !matches!(&said, Err(why) if comes_again.contains(&why.code())) {
                *outcome.borrow_mut() = Some(said);
                return;
            }
            if tries > 0 {
                own.set(true);
                poll_fn(|_| if own.get() { Poll::Pending } else { Poll::Ready(()) }).await;
            }
        }
        panic!("it is not answered");
    });
    Actor { run, waits }
}

/// What a call has answered.
fn said<T: Clone>(outcome: &Outcome<T>) -> Result<T, Code> {
    let said = outcome.borrow().clone();
    said.expect("it was answered").map_err(|why| why.code())
}

/// What takes no turns is done at once.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("nothing is waited for"),
    }
}

/// An order of requests: which choice was taken of how many.
struct Order {
    choices: Vec<(usize, usize)>,
    at: usize,
    switches: usize,
}

impl Order {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, of));
        }
        let (choice, there) = self.choices[self.at];
        assert_eq!(there, of, "the same order has come to something else");
        self.at += 1;
        choice
    }

    /// The next one; none is left.
    fn step(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, of)) = self.choices.pop() {
            if choice + 1 < of {
                self.choices.push((choice + 1, of));
                return true;
            }
        }
        false
    }

    /// Runs all to their ends.
    fn run(&mut self, mut actors: Vec<Actor<'_>>) {
        let mut context = Context::from_waker(Waker::noop());
        // To their first requests.
        actors.retain_mut(|actor| actor.run.as_mut().poll(&mut context).is_pending());
        let mut left = self.switches;
        let mut last = None;
        while !actors.is_empty() {
            let mut able: Vec<usize> = (0..actors.len()).filter(|at| !actors[*at].waits.get()).collect();
            if able.is_empty() {
                actors.iter().for_each(|actor| actor.waits.set(false));
                continue;
            }
            // Going on comes first, and is all where no switch is left.
            let goes_on = able.iter().position(|at| Some(*at) == last);
            if let Some(first) = goes_on {
                able.swap(0, first);
                able.truncate(1 + left * able.len());
            }
            let at = able[self.choose(able.len())];
            if goes_on.is_some() && Some(at) != last {
                left -= 1;
            }
            last = Some(at);
            if actors[at].run.as_mut().poll(&mut context).is_ready() {
                actors.remove(at);
                actors.iter().for_each(|actor| actor.waits.set(false));
                last = None;
            }
        }
    }
}

/// Plays a scene in every order that switches from one who could go on so often at most; how many there were.
fn in_orders(switches: usize, scene: impl Fn(&mut Order)) -> usize {
    let mut order = Order {
        choices: Vec::new(),
        at: 0,
        switches,
    };
    for count in 1..MOST_ORDERS {
        scene(&mut order);
        if !order.step() {
            return count;
        }
    }
    panic!("there are more than {MOST_ORDERS} orders");
}

/// All orders.
const ALL: usize = 1000;

fn one(how: &str) -> Fake {
    let fake = Fake::new();
    let request = CreateVolumeRequest {
        parameters: of(&[("onDelete", how)]),
        ..wanted("v", GIB)
    };
    now(make(&fake, request)).expect("made");
    fake
}

/// Whoever was told of a snapshot has it, and nobody else; its volume is there for it.
fn as_told(fake: &Fake, taken: Result<String, Code>, said: &str) {
    let cluster = fake.cluster();
    match taken {
        Ok(id) => {
            assert_eq!(id, "1:v@s", "{said}");
            assert_eq!(cluster.snapshots.len(), 1, "{said}: {:?}", cluster.asked);
            assert!(
                cluster.volumes.contains_key("csi-gone-1"),
                "{said}: {:?}",
                cluster.asked
            );
        }
        Err(why) => {
            assert_eq!(why, Code::NotFound, "{said}");
            assert!(cluster.snapshots.is_empty(), "{said}: {:?}", cluster.asked);
            assert!(cluster.volumes.is_empty(), "{said}: {:?}", cluster.asked);
        }
    }
}

#[test]
fn a_snapshot_that_was_told_of_stays_whoever_deletes_its_volume() {
    let mut orders = 0;
    let losses = (0..=REQUESTS)
        .map(|lost| (lost, 0))
        .chain((1..=REQUESTS).map(|lost| (0, lost)));
    for (of_taking, of_deleting) in losses {
        for how in ["recycle", "now"] {
            let switches = if of_taking + of_deleting == 0 { ALL } else { 4 };
            orders += in_orders(switches, |order| {
                let fake = one(how);
                let (taken, deleted) = (Outcome::default(), Outcome::default());
                order.run(vec![
                    caller(&taken, fake.in_turns(of_taking), async |fake: &Fake| {
                        take(fake, "1:v", "s").await
                    }),
                    caller(&deleted, fake.in_turns(of_deleting), async |fake: &Fake| {
                        delete(fake, "1:v").await
                    }),
                ]);
                assert_eq!(said(&deleted), Ok(()));
                as_told(&fake, said(&taken), &format!("{of_taking} {of_deleting} {how}"));
            });
        }
    }
    println!("{orders} orders");
}

/// A controller that leads no more asks for what another one has told of.
#[test]
fn a_second_call_for_a_snapshot_ends_nothing() {
    let orders = in_orders(ALL, |order| {
        let fake = one("recycle");
        now(take(&fake, "1:v", "s")).expect("taken");
        let (taken, deleted) = (Outcome::default(), Outcome::default());
        order.run(vec![
            caller(&taken, fake.in_turns(0), async |fake: &Fake| {
                take(fake, "1:v", "s").await
            }),
            caller(&deleted, fake.in_turns(0), async |fake: &Fake| {
                delete(fake, "1:v").await
            }),
        ]);
        assert_eq!((said(&taken), said(&deleted)), (Ok("1:v@s".to_owned()), Ok(())));
        as_told(&fake, said(&taken), "told of before");
    });
    // Two who ask for it, and one who deletes.
    let of_three = in_orders(3, |order| {
        let fake = one("recycle");
        let (first, second, deleted) = (Outcome::default(), Outcome::default(), Outcome::default());
        order.run(vec![
            caller(&first, fake.in_turns(0), async |fake: &Fake| {
                take(fake, "1:v", "s").await
            }),
            caller(&second, fake.in_turns(0), async |fake: &Fake| {
                take(fake, "1:v", "s").await
            }),
            caller(&deleted, fake.in_turns(0), async |fake: &Fake| {
                delete(fake, "1:v").await
            }),
        ]);
        assert_eq!(said(&deleted), Ok(()));
        // One may have asked before it was taken, and the other after it had gone.
        as_told(&fake, said(&first).or(said(&second)), "two");
    });
    println!("{orders} orders, and {of_three} of three");
}

/// The last snapshot goes while its volume does: nothing waits for it.
#[test]
fn a_volume_does_not_wait_for_a_snapshot_that_goes() {
    for lost in 0..=REQUESTS {
        in_orders(ALL, |order| {
            let fake = one("recycle");
            now(take(&fake, "1:v", "s")).expect("taken");
            let (dropped, deleted) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&dropped, fake.in_turns(lost), async |fake: &Fake| {
                    drop_snapshot(fake, "1:v@s").await
                }),
                caller(&deleted, fake.in_turns(0), async |fake: &Fake| {
                    delete(fake, "1:v").await
                }),
            ]);
            assert_eq!((said(&dropped), said(&deleted)), (Ok(()), Ok(())));
            let cluster = fake.cluster();
            assert!(cluster.volumes.is_empty(), "{lost}: {:?}", cluster.asked);
            assert!(cluster.snapshots.is_empty(), "{lost}: {:?}", cluster.asked);
        });
    }
}

#[test]
fn a_group_that_was_told_of_stays_whoever_deletes_one_of_its_volumes() {
    for is_there in [false, true] {
        let orders = in_orders(4, |order| {
            let fake = Fake::new();
            now(two(&fake));
            if is_there {
                now(take_both(&fake)).expect("taken");
            }
            let (taken, deleted) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&taken, fake.in_turns(0), async |fake: &Fake| take_both(fake).await),
                caller(&deleted, fake.in_turns(0), async |fake: &Fake| {
                    delete(fake, "2:two").await
                }),
            ]);
            assert_eq!(said(&deleted), Ok(()));
            let left = match said(&taken) {
                Ok(_) => 2,
                Err(why) => {
                    assert_eq!((why, is_there), (Code::NotFound, false));
                    0
                }
            };
            let cluster = fake.cluster();
            assert_eq!(cluster.snapshots.len(), left, "{:?}", cluster.asked);
            assert_eq!(
                cluster.volumes.contains_key("csi-gone-2"),
                left > 0,
                "{:?}",
                cluster.asked
            );
        });
        println!("{orders} orders");
    }
}

/// Room that is there, and is not, and is there again.
fn others(fake: &Fake) -> Actor<'_> {
    let waits = Rc::default();
    let pause = async || {
        let mut is_its_turn = false;
        poll_fn(|_| match std::mem::replace(&mut is_its_turn, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    };
    let run = Box::pin(async move {
        pause().await;
        fake.cluster().grows_no_more = true;
        pause().await;
        fake.cluster().grows_no_more = false;
    });
    Actor { run, waits }
}

/// Whoever was told of a volume has it, also where another call for it is refused for good, and undone.
#[test]
fn a_volume_that_was_told_of_is_not_undone() {
    let from = |source| CreateVolumeRequest {
        volume_content_source: source,
        ..wanted("two", 2 * GIB)
    };
    for (name, switches) in [("snapshot", 3), ("volume", 2)] {
        let orders = in_orders(switches, |order| {
            let fake = one("recycle");
            now(take(&fake, "1:v", "s")).expect("taken");
            let request = from(match name {
                "snapshot" => from_snapshot("1:v@s"),
                _ => from_volume("1:v"),
            });
            let (first, second) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&first, fake.in_turns(0), async |fake: &Fake| {
                    make(fake, request.clone()).await
                }),
                caller(&second, fake.in_turns(0), async |fake: &Fake| {
                    make(fake, request.clone()).await
                }),
                others(&fake),
            ]);
            let told = [said(&first), said(&second)];
            let cluster = fake.cluster();
            let there = cluster.volumes.get("two");
            for made in &told {
                match made {
                    Ok((id, bytes)) => {
                        let there = there.unwrap_or_else(|| panic!("it was told of: {:?}", cluster.asked));
                        assert_eq!((format!("{}:two", there.id), 2 * GIB), (id.clone(), *bytes));
                        assert_eq!(there.size_bytes, 2 << 30);
                    }
                    Err(why) => assert_eq!(*why, Code::ResourceExhausted),
                }
            }
            // And nothing is left of what nobody was told of.
            assert_eq!(there.is_some(), told.iter().any(Result::is_ok), "{:?}", cluster.asked);
            assert_eq!(cluster.snapshots.len(), 1, "{:?}", cluster.asked);
        });
        println!("{orders} orders of two who begin as a {name}");
    }
}

#[test]
fn two_who_make_one_volume_have_the_same() {
    let of_snapshot = CreateVolumeRequest {
        volume_content_source: from_snapshot("1:v@s"),
        ..wanted("two", 2 * GIB)
    };
    let of_volume = CreateVolumeRequest {
        volume_content_source: from_volume("1:v"),
        ..wanted("two", 2 * GIB)
    };
    let read_only = CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeReaderOnly, "")],
        ..of_snapshot.clone()
    };
    for (request, switches, snapshots) in [
        (wanted("two", GIB), ALL, 1),
        (of_snapshot, 5, 1),
        (of_volume, 4, 1),
        (read_only, 4, 2),
    ] {
        let orders = in_orders(switches, |order| {
            let fake = one("recycle");
            now(take(&fake, "1:v", "s")).expect("taken");
            let (first, second) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&first, fake.in_turns(0), async |fake: &Fake| {
                    make(fake, request.clone()).await
                }),
                caller(&second, fake.in_turns(0), async |fake: &Fake| {
                    make(fake, request.clone()).await
                }),
            ]);
            let cluster = fake.cluster();
            assert!(said(&first).is_ok(), "{:?} {:?}", said(&first), cluster.asked);
            assert_eq!(said(&first), said(&second), "{:?}", cluster.asked);
            assert_eq!(cluster.volumes.len(), 2);
            assert_eq!(cluster.snapshots.len(), snapshots, "{:?}", cluster.snapshots);
        });
        println!("{orders} orders");
    }
}

/// Its source goes meanwhile: the clone is there whole, or not at all.
#[test]
fn a_clone_and_the_deletion_of_its_source() {
    for how in ["recycle", "now"] {
        let orders = in_orders(4, |order| {
            let fake = one(how);
            let request = CreateVolumeRequest {
                volume_content_source: from_volume("1:v"),
                ..wanted("two", 2 * GIB)
            };
            let (made, deleted) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&made, fake.in_turns(0), async |fake: &Fake| {
                    make(fake, request.clone()).await
                }),
                caller(&deleted, fake.in_turns(0), async |fake: &Fake| {
                    delete(fake, "1:v").await
                }),
            ]);
            assert_eq!(said(&deleted), Ok(()));
            let cluster = fake.cluster();
            match said(&made) {
                Ok(_) => assert_eq!(
                    cluster.volumes.keys().collect::<Vec<_>>(),
                    ["two"],
                    "{:?}",
                    cluster.asked
                ),
                Err(why) => {
                    assert_eq!(why, Code::NotFound);
                    assert!(cluster.volumes.is_empty(), "{:?}", cluster.asked);
                }
            }
            assert!(cluster.snapshots.is_empty(), "{:?}", cluster.asked);
        });
        println!("{orders} orders");
    }
}

#[test]
fn two_who_delete_one_volume() {
    // All orders of the second take a minute.
    for (snapshot, switches) in [(false, ALL), (true, 4)] {
        in_orders(switches, |order| {
            let fake = one("now");
            if snapshot {
                now(take(&fake, "1:v", "s")).expect("taken");
            }
            let (first, second) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&first, fake.in_turns(0), async |fake: &Fake| delete(fake, "1:v").await),
                caller(&second, fake.in_turns(0), async |fake: &Fake| delete(fake, "1:v").await),
            ]);
            assert_eq!((said(&first), said(&second)), (Ok(()), Ok(())));
            let cluster = fake.cluster();
            assert_eq!(
                cluster.volumes.contains_key("csi-gone-1"),
                snapshot,
                "{:?}",
                cluster.asked
            );
            assert_eq!(cluster.volumes.len(), usize::from(snapshot), "{:?}", cluster.asked);
        });
    }
}

/// What a node is told is of one attachment, whoever ends it meanwhile and makes another one.
#[test]
fn what_a_node_is_told_is_of_one_attachment() {
    for tls in [false, true] {
        let one_of = async |fake: &Fake| {
            let request = ControllerPublishVolumeRequest {
                volume_id: "1:v".to_owned(),
                node_id: ONE.to_owned(),
                volume_capability: Some(block(Mode::SingleNodeWriter)),
                volume_context: of(&[("tlsRequired", if tls { "true" } else { "false" })]),
                ..Default::default()
            };
            Ok::<_, Status>(fake.controller().publish(request).await?.publish_context)
        };
        let orders = in_orders(4, |order| {
            let fake = one("recycle");
            now(one_of(&fake)).expect("published");
            let (again, moved) = (Outcome::default(), Outcome::default());
            order.run(vec![
                caller(&again, fake.in_turns(0), async |fake: &Fake| one_of(fake).await),
                caller(&moved, fake.in_turns(0), async |fake: &Fake| {
                    unpublish(fake, "1:v", ONE).await?;
                    one_of(fake).await
                }),
            ]);
            said(&moved).expect("published");
            let told = said(&again).expect("published");
            let number = told["attachment"].parse().expect("a number");
            let cluster = fake.cluster();
            assert!(
                cluster.made.contains(&(told["nqn"].clone(), number)),
                "{told:?} {:?} {:?}",
                cluster.made,
                cluster.asked
            );
        });
        println!("{orders} orders");
    }
    // And of two nodes that want a volume of one node, one has it.
    let orders = in_orders(4, |order| {
        let fake = one("recycle");
        let (first, second) = (Outcome::default(), Outcome::default());
        let wanted = async |fake: &Fake, node: &str| match publish(fake, "1:v", node, Mode::SingleNodeWriter).await {
            // The other one has it.
            Err(why) if why.code() == Code::FailedPrecondition => Ok(false),
            done => done.map(|_| true),
        };
        order.run(vec![
            caller(&first, fake.in_turns(0), async |fake: &Fake| wanted(fake, ONE).await),
            caller(&second, fake.in_turns(0), async |fake: &Fake| wanted(fake, TWO).await),
        ]);
        let (first, second) = (said(&first).expect("told"), said(&second).expect("told"));
        let cluster = fake.cluster();
        let hosts: usize = cluster.subsystems.values().map(|found| found.hosts.len()).sum();
        assert!(!(first && second), "{:?}", cluster.asked);
        // One that was refused while the other one was there for a moment may be there still: it asks again, or is taken off.
        assert!(hosts >= usize::from(first || second), "{:?}", cluster.asked);
    });
    println!("{orders} orders of two nodes");
}
