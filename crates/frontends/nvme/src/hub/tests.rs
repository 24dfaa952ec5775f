use super::super::command::Command;
use super::super::failure::Failure;
use super::*;
use amita_frontend::FrontId;

const SUBSYSTEM: &str = "nqn.2026-01.test:a";
/// Of the connections of these tests.
const CORES: u16 = 4;

fn connection(front: u64) -> ConnectionId {
    ConnectionId {
        core: front as u16 % CORES,
        front: FrontId(front),
    }
}

fn party(subsystem: &str) -> Box<Party> {
    Box::new(Party {
        subsystem: subsystem.into(),
        asked: subsystem.into(),
        host: "nqn.2026-01.test:host".into(),
        host_id: [1; 16],
    })
}

fn unproven(address: u8) -> Holder {
    Holder::Unproven([192, 0, 2, address].into())
}

fn proven(host: &str) -> Holder {
    Holder::Proven(host.into())
}

/// The settings, in which a host has something to prove, or none has.
fn settings(proof: bool) -> Catalog {
    let secret = || crate::Secret("a secret".into());
    let host = crate::HostAccess {
        nqn: "nqn.2026-01.test:host".into(),
        dhchap: proof.then(secret),
        dhchap_controller: None,
        tls: None,
    };
    let subsystem = Subsystem {
        nqn: SUBSYSTEM.into(),
        serial: "1".into(),
        gateways: Vec::new(),
        any_host: true,
        tls_required: false,
        hosts: vec![Arc::new(host)],
        namespaces: Vec::new(),
        ana_changes: 0,
    };
    Catalog {
        subsystems: vec![Arc::new(subsystem)],
        ..Catalog::default()
    }
}

struct Register(Hub, Catalog);

impl Register {
    /// Asks; what is said to whoever asked. What is said to others is dropped.
    fn call(&mut self, front: u64, call: Call) -> Option<Reply> {
        self.0.call(connection(front), 7, call, &self.1);
        let mut word = None;
        while let Some((to, tag, said)) = self.0.next_reply() {
            if to == connection(front) {
                assert_eq!((tag, word.is_none()), (7, true), "{said:?}");
                word = Some(said);
            }
        }
        word
    }

    fn create(&mut self, front: u64, subsystem: &str) -> u16 {
        self.create_for(front, subsystem, unproven(1), None)
            .expect("a controller")
    }

    /// Makes a controller, with the number that was offered; none when there is no place for it.
    fn create_for(&mut self, front: u64, subsystem: &str, holder: Holder, number: Option<u16>) -> Option<u16> {
        let call = Call::Create {
            party: party(subsystem),
            discovery: false,
            holder,
            number,
        };
        match self.call(front, call) {
            Some(Reply::Created { controller, .. }) => Some(controller),
            Some(Reply::Refused { status, .. }) if status == status::CONNECT_BUSY => None,
            other => panic!("{other:?}"),
        }
    }

    fn offer(&mut self, front: u64, subsystem: &str) -> Option<u16> {
        let call = Call::Offer {
            party: party(subsystem),
            discovery: false,
        };
        match self.call(front, call) {
            Some(Reply::Offered { controller }) => Some(controller),
            Some(Reply::Refused { status, .. }) if status == status::CONNECT_BUSY => None,
            other => panic!("{other:?}"),
        }
    }

    /// A controller that is enabled with room for eight queues.
    fn enabled(&mut self, front: u64) -> u16 {
        let number = self.create(front, SUBSYSTEM);
        self.enable(front);
        number
    }

    fn enable(&mut self, front: u64) {
        let shared = Shared::default();
        let word = self.call(front, Call::Enable { queues: 8, shared });
        assert!(matches!(word, Some(Reply::Enabled)), "{word:?}");
    }

    /// Connects an I/O queue: the status of a refusal, and its result.
    fn join(&mut self, front: u64, controller: u16, queue: u16) -> Result<(), (Status, u32)> {
        let call = Call::Join {
            party: party(SUBSYSTEM),
            controller,
            queue,
        };
        match self.call(front, call) {
            Some(Reply::Joined { .. }) => Ok(()),
            Some(Reply::Refused { status, result }) => Err((status, result)),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, front: u64, question: Question) -> Answer {
        match self.call(front, Call::Ask(question)) {
            Some(Reply::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn grant(&mut self, front: u64, queues: u16) -> bool {
        self.ask(front, Question::Grant(queues)) == Answer::Grant(true)
    }

    fn fail(&mut self, front: u64, commands: std::ops::Range<u16>) {
        let mut failures = Failures::default();
        commands.for_each(|id| failures.push(failure(id)));
        let word = self.call(front, Call::Failed(failures));
        assert!(matches!(word, Some(Reply::Noted)), "{word:?}");
    }

    fn failures(&mut self, front: u64) -> (u64, Vec<u16>) {
        match self.ask(front, Question::Failures) {
            Answer::Failures(failures) => {
                let kept = failures.kept().map(|failure| failure.command).collect();
                (failures.forgotten(), kept)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn failure(id: u16) -> Failure {
    Failure {
        command: id,
        ..Failure::of(1, &Command([0; 64]), status::INTERNAL, None)
    }
}

fn register() -> Register {
    Register(Hub::default(), Catalog::default())
}

/// NVM Express Base 2.1, 6.3 with 5.1.25.2.1: a queue beyond the number that was granted is an invalid parameter.
#[test]
fn queues_beyond_the_grant_are_refused() {
    let mut hub = register();
    let controller = hub.enabled(1);
    assert_eq!(
        hub.join(2, controller, 9),
        Err((status::CONNECT_PARAMETERS, invalid(42, false)))
    );
    assert!(hub.grant(1, 2));
    for queue in [0, 3, 8, 9, u16::MAX] {
        assert_eq!(
            hub.join(2, controller, queue),
            Err((status::CONNECT_PARAMETERS, invalid(42, false))),
            "queue {queue}"
        );
    }
    // A refusal is no queue: the number can still be another one.
    assert!(hub.grant(1, 3));
    assert_eq!(hub.join(2, controller, 3), Ok(()));
}

/// NVM Express Base 2.1, 5.1.25.2.1: the number is settled by the first I/O queue, until the next reset.
#[test]
fn the_first_queue_settles_how_many_there_can_be() {
    let mut hub = register();
    let controller = hub.enabled(1);
    assert_eq!(hub.join(2, controller, 1), Ok(()));
    assert!(!hub.grant(1, 4));
    hub.call(2, Call::Leave);
    assert!(!hub.grant(1, 4), "that it is gone does not help");
    assert_eq!(hub.join(3, controller, 8), Ok(()), "as many as before");
    hub.call(1, Call::Disable);
    assert!(!hub.grant(1, 4), "it takes no queues");
    hub.enable(1);
    assert!(hub.grant(1, 4));
    assert!(hub.join(4, controller, 5).is_err());
    assert_eq!(hub.join(5, controller, 4), Ok(()));
}

#[test]
fn an_io_queue_asks_in_vain() {
    let mut hub = register();
    let controller = hub.enabled(1);
    assert!(!hub.grant(9, 4), "nobody knows it");
    assert_eq!(hub.join(2, controller, 1), Ok(()));
    hub.fail(2, 0..1);
    assert!(!hub.grant(2, 4));
    assert_eq!(hub.failures(2), (0, vec![]));
    assert_eq!(hub.failures(1), (0, vec![0]));
}

#[test]
fn failures_wait_for_the_admin_queue() {
    let mut hub = register();
    let (one, other) = (hub.enabled(1), hub.enabled(2));
    assert_eq!(hub.join(3, one, 1), Ok(()));
    assert_eq!(hub.join(4, one, 2), Ok(()));
    assert_eq!(hub.join(5, other, 1), Ok(()));
    hub.fail(3, 0..3);
    hub.fail(4, 10..12);
    hub.fail(5, 90..91);
    assert_eq!(hub.failures(1), (0, vec![0, 1, 2, 10, 11]));
    assert_eq!(hub.failures(1), (0, vec![]), "each is told once");
    assert_eq!(hub.failures(2), (0, vec![90]), "of its own queues only");
    hub.fail(3, 0..50);
    hub.fail(4, 50..100);
    assert_eq!(
        hub.failures(1),
        (36, (36..100).collect()),
        "the newest, and how many more"
    );
    // What failed is told also when the controller was reset meanwhile.
    hub.fail(3, 5..6);
    hub.call(1, Call::Disable);
    hub.fail(4, 6..7);
    assert_eq!(hub.failures(1), (0, vec![5]), "queue 2 is none of its any more");
    hub.call(1, Call::Leave);
    hub.fail(3, 0..1);
}

#[test]
fn the_controllers_of_a_subsystem() {
    let mut hub = register();
    let first = hub.create(1, SUBSYSTEM);
    hub.create(2, "nqn.2026-01.test:b");
    hub.create(3, "nqn.2026-01.test:");
    let second = hub.enabled(4);
    let mut all = vec![first, second];
    all.sort_unstable();
    assert_eq!(hub.ask(1, Question::Controllers), Answer::Controllers(all.clone()));
    assert_eq!(hub.ask(4, Question::Controllers), Answer::Controllers(all));
    hub.call(1, Call::Leave);
    assert_eq!(hub.ask(4, Question::Controllers), Answer::Controllers(vec![second]));
    assert_eq!(hub.ask(9, Question::Controllers), Answer::Controllers(vec![]));
}

#[test]
fn an_offer_takes_no_place() {
    let mut hub = register();
    let offered: Vec<u16> = (0..1000).filter_map(|front| hub.offer(front, SUBSYSTEM)).collect();
    assert_eq!(offered.len(), 1000);
    assert_eq!(hub.0.controllers(), 0);
    // The same number twice: the second that has proven itself tries again.
    let number = offered[0];
    assert_eq!(hub.create_for(1000, SUBSYSTEM, proven("a"), Some(number)), Some(number));
    assert_eq!(hub.create_for(1001, SUBSYSTEM, proven("b"), Some(number)), None);
    assert!(
        (0..200).all(|front| hub.offer(2000 + front, SUBSYSTEM) != Some(number)),
        "it is taken"
    );
    hub.call(1000, Call::Leave);
    assert_eq!(hub.create_for(1001, SUBSYSTEM, proven("b"), Some(number)), Some(number));
}

#[test]
fn nobody_holds_all_controllers() {
    let mut hub = register();
    let limit = MAX_CONTROLLERS_OF_HOLDER as u64;
    for (at, holder) in [proven("a"), unproven(1)].into_iter().enumerate() {
        let first = at as u64 * 100;
        for front in first..first + limit {
            assert!(hub.create_for(front, SUBSYSTEM, holder.clone(), None).is_some());
        }
        assert_eq!(hub.create_for(first + limit, SUBSYSTEM, holder.clone(), None), None);
        // Elsewhere it has others, and what it gives back it may have again.
        assert!(
            hub.create_for(first + limit, "nqn.2026-01.test:b", holder.clone(), None)
                .is_some()
        );
        hub.call(first, Call::Leave);
        assert!(hub.create_for(first, SUBSYSTEM, holder, None).is_some());
    }
    assert!(hub.create_for(900, SUBSYSTEM, unproven(2), None).is_some());
}

#[test]
fn places_are_kept_for_hosts_that_prove_themselves() {
    for proof in [false, true] {
        let mut hub = Register(Hub::default(), settings(proof));
        let mut strangers = 0;
        for front in 0..MAX_CONTROLLERS as u64 + 1 {
            let made = hub.create_for(front, SUBSYSTEM, unproven(front as u8), None);
            strangers += usize::from(made.is_some());
        }
        let kept = if proof { KEPT_FOR_PROVEN } else { 0 };
        assert_eq!(strangers, MAX_CONTROLLERS - kept);
        for place in 0..KEPT_FOR_PROVEN as u64 {
            let number = hub.offer(100 + place, SUBSYSTEM);
            let made = number.and_then(|_| hub.create_for(100 + place, SUBSYSTEM, proven("a"), number));
            assert_eq!(made.is_some(), proof);
        }
    }
}

/// An identifier is one host's: of another name none connects by it, but that one has proven its name and the first has not.
#[test]
fn an_identifier_is_used_by_one_host() {
    let connect = |hub: &mut Register, front: u64, host: &str, id: u8, holder: Holder| {
        let mut party = party(SUBSYSTEM);
        (party.host, party.host_id) = (host.into(), [id; 16]);
        let call = Call::Create {
            party,
            discovery: false,
            holder,
            number: None,
        };
        match hub.call(front, call) {
            Some(Reply::Created { .. }) => None,
            Some(Reply::Refused { status, result }) => Some((status, result)),
            other => panic!("{other:?}"),
        }
    };
    let mut hub = register();
    let refused = Some((status::CONNECT_PARAMETERS, invalid(0, true)));
    assert_eq!(connect(&mut hub, 1, "a", 1, unproven(1)), None);
    assert_eq!(connect(&mut hub, 2, "a", 1, unproven(2)), None, "its second path");
    assert_eq!(connect(&mut hub, 3, "b", 1, unproven(1)), refused);
    assert_eq!(connect(&mut hub, 4, "b", 2, unproven(1)), None);
    assert_eq!(
        connect(&mut hub, 5, "c", 1, proven("c")),
        None,
        "it has proven its name"
    );
    assert_eq!(connect(&mut hub, 6, "a", 1, unproven(1)), refused);
    assert_eq!(connect(&mut hub, 7, "d", 1, proven("d")), refused);
    hub.call(5, Call::Leave);
    assert_eq!(connect(&mut hub, 7, "d", 1, proven("d")), None);
}

fn discover(hub: &mut Register, front: u64, holder: Holder) -> Option<u16> {
    let call = Call::Create {
        party: party("nqn.2014-08.org.nvmexpress.discovery"),
        discovery: true,
        holder,
        number: None,
    };
    match hub.call(front, call) {
        Some(Reply::Created { controller, .. }) => Some(controller),
        Some(Reply::Refused { status, .. }) if status == status::CONNECT_BUSY => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn discovery_controllers_of_one_address_are_some_and_leave_room_for_others() {
    let mut hub = register();
    let most = MAX_DISCOVERY_CONTROLLERS_OF_HOLDER as u64;
    assert!((64..=256).contains(&most));
    for front in 1..=most {
        assert!(discover(&mut hub, front, unproven(1)).is_some());
    }
    assert_eq!(discover(&mut hub, most + 1, unproven(1)), None);
    assert!(discover(&mut hub, most + 2, unproven(2)).is_some());
    assert!(discover(&mut hub, most + 3, proven("nqn.2026-01.test:host")).is_some());
    hub.call(1, Call::Leave);
    assert!(discover(&mut hub, most + 4, unproven(1)).is_some());
}

/// Each number is one controller's, until there are no more; what was given back is not given out again at once.
#[test]
fn numbers_are_given_out_once_and_not_again_at_once() {
    let mut hub = register();
    let whose = |front: u64| proven(&format!("nqn.2026-01.test:host{front}"));
    let all = MAX_DISCOVERY_CONTROLLERS as u64;
    let numbers: std::collections::BTreeSet<u16> = (1..=all)
        .map(|front| discover(&mut hub, front, whose(front)).expect("a number"))
        .collect();
    assert_eq!(numbers.len() as u64, all);
    assert!(numbers.first() == Some(&1) && numbers.last() == Some(&(all as u16)));
    assert_eq!(discover(&mut hub, all + 1, whose(0)), None);
    hub.call(77, Call::Leave);
    hub.call(78, Call::Leave);
    let (one, other) = (
        discover(&mut hub, all + 2, whose(1)),
        discover(&mut hub, all + 3, whose(2)),
    );
    assert!(one != other && one.is_some() && other.is_some());
    assert_eq!(discover(&mut hub, all + 4, whose(3)), None);
    let mut hub = register();
    let first = discover(&mut hub, 1, whose(1)).unwrap();
    hub.call(1, Call::Leave);
    assert_ne!(discover(&mut hub, 2, whose(2)), Some(first));
}
