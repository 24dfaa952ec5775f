//! The sessions of initiators at this node, in the form of the API.

use amita_api::{IscsiSession, OwnSessions, SessionQuestion, Sessions};
use amita_node::observe::{CollectSessions, CoreSessions, FoundSession, NodeSessions, SessionsWanted};
use amita_reactor::Time;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the API asks for them.
pub(super) fn sessions(collect: CollectSessions) -> Sessions {
    Arc::new(move |question: &SessionQuestion| {
        let wanted = SessionsWanted {
            // A core that there cannot be is behind all.
            after: question
                .after
                .map(|(core, number)| (usize::try_from(core).unwrap_or(usize::MAX), number)),
            limit: question.limit,
            initiator: question.initiator.clone(),
            target: question.iqn.clone(),
        };
        let found = collect(&wanted);
        shown(found, SystemTime::now())
    })
}

fn shown(found: NodeSessions, now: SystemTime) -> OwnSessions {
    let of_core = |core: CoreSessions| {
        let (number, at) = (core.core as u64, core.now);
        core.sessions
            .into_iter()
            .map(move |found| session(number, at, now, found))
    };
    OwnSessions {
        sessions: found.cores.into_iter().flat_map(of_core).collect(),
        is_cut: found.is_cut,
        silent_cores: found.silent as u64,
    }
}

/// `at`: `now` on the core's clock.
fn session(core: u64, at: Time, now: SystemTime, found: FoundSession) -> IscsiSession {
    let FoundSession { number, peer, report } = found;
    let ago = |then: Time| Duration::from_nanos(at.0.saturating_sub(then.0));
    let since = now.checked_sub(ago(report.since)).unwrap_or(UNIX_EPOCH);
    let agreed = report.agreed;
    IscsiSession {
        node: String::new(),
        core,
        number,
        initiator: report.initiator,
        proven: report.is_proven,
        peer: peer.map(|peer| peer.to_string()),
        target: None,
        iqn: report.target,
        isid: report.isid.iter().map(|byte| format!("{byte:02x}")).collect(),
        tsih: report.tsih,
        tag: report.tag,
        portal: report.portal.map(|portal| portal.to_string()),
        since: since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        silent_seconds: ago(report.heard).as_secs(),
        header_digest: agreed.header_digest,
        data_digest: agreed.data_digest,
        immediate_data: agreed.immediate_data,
        initial_r2t: agreed.initial_r2t,
        max_receive_bytes: report.max_receive as u64,
        max_send_bytes: agreed.max_send.into(),
        max_burst_bytes: agreed.max_burst.into(),
        first_burst_bytes: agreed.first_burst.into(),
        max_outstanding_r2t: agreed.max_outstanding_r2t,
        commands: report.commands,
        under_way: report.under_way as u64,
    }
}
