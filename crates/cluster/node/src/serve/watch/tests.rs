use super::*;
use crate::observe::FoundSession;
use amita_iscsi::SessionReport;
use amita_iscsi::negotiation::Agreed;
use amita_reactor::Time;

const CORES: usize = 20;

fn found(core: usize, number: u64) -> FoundSession {
    FoundSession {
        number,
        peer: None,
        report: SessionReport {
            initiator: format!("iqn.2001-04.com.example:{core}-{number}"),
            is_proven: false,
            target: None,
            isid: [0; 6],
            tsih: 1,
            tag: 1,
            portal: None,
            since: Time(0),
            heard: Time(0),
            agreed: Agreed::default(),
            max_receive: 8192,
            commands: 128,
            under_way: 0,
        },
    }
}

/// Of 20 cores each has as many sessions as its number says; the last one is silent.
fn ask(core: usize, after: u64, wanted: Arc<SessionsWanted>, reply: Sender<Box<CoreSessions>>) {
    if core == CORES - 1 {
        return;
    }
    let behind = (1..=core as u64).filter(|number| *number > after);
    let mut sessions: Vec<FoundSession> = behind.map(|number| found(core, number)).collect();
    let is_cut = sessions.len() > wanted.limit;
    sessions.truncate(wanted.limit);
    let answer = CoreSessions {
        core,
        now: Time(1),
        sessions,
        is_cut,
    };
    reply.send(Box::new(answer)).unwrap();
}

fn places(found: &NodeSessions) -> Vec<(usize, u64)> {
    let cores = found.cores.iter();
    cores
        .flat_map(|core| core.sessions.iter().map(|session| (core.core, session.number)))
        .collect()
}

#[test]
fn pieces_of_sessions_make_the_whole() {
    let all: Vec<(usize, u64)> = (0..CORES - 1)
        .flat_map(|core| (1..=core as u64).map(move |number| (core, number)))
        .collect();
    for limit in [1, 2, 7, 36, 171, 172] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let wanted = SessionsWanted {
                after,
                limit,
                ..SessionsWanted::default()
            };
            let found = gather(CORES, &wanted, &ask);
            let piece = places(&found);
            assert!(piece.len() <= limit, "{limit}");
            seen.extend(piece);
            after = seen.last().copied();
            if !found.is_cut {
                assert_eq!(found.silent, 1, "{limit}");
                break;
            }
        }
        assert_eq!(seen, all, "{limit}");
    }
}

#[test]
fn a_question_is_about_those_whom_it_names() {
    let wanted = |initiator: Option<&str>, target: Option<&str>| SessionsWanted {
        initiator: initiator.map(str::to_owned),
        target: target.map(str::to_owned),
        ..SessionsWanted::default()
    };
    assert!(wanted(None, None).is_about("i", None));
    assert!(wanted(Some("i"), Some("t")).is_about("i", Some("t")));
    assert!(!wanted(Some("i"), None).is_about("j", Some("t")));
    assert!(!wanted(None, Some("t")).is_about("i", None), "it is there to discover");
}
