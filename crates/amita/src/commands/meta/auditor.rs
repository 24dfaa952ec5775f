//! What the metadata's server refuses is in the audit log: nobody else can know of it.
//!
//! A thread of its own writes the records, as the server's own identity, by the server's own door: nothing of the server waits for it.
//! Who is refused all the time does not fill the log: what comes too fast is counted, and each record says how many of the same name, and
//! how many of all others, are in none. Refusals of the server are less than a quarter of the records that are kept in 400 days.

use amita_audit::{Allowances, Limit};
use amita_control::audit;
use amita_identity::Live;
use amita_metadata::Client;
use amita_metadata::client::{Options, Tls};
use amita_metadata::server::Heard;
use amita_terminal::error::{Context, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Refusals of one name that are told.
const EACH: Limit = Limit {
    most: 16,
    pause: Duration::from_secs(6 * 3600),
};
/// Of all of them: three who are refused all the time leave the burst to the others. More of them can use up all of it.
const ALL: Limit = Limit {
    most: 128,
    pause: Duration::from_secs(2 * 3600),
};
/// How long the thread sleeps when nobody is refused.
const LOOK: Duration = Duration::from_secs(3600);

/// Starts the thread. It ends with the server, which holds the other end.
pub(super) fn start(live: &Arc<Live>, server: SocketAddr, heard: Heard) -> Result<()> {
    let options = Options {
        tls: Some(Tls::of(live)),
        ..Options::default()
    };
    let endpoint = format!("https://{}", reachable(server));
    let failed = || "cannot write the audit log".to_owned();
    let client = Client::connect_with(&[endpoint], options).context(failed)?;
    std::thread::Builder::new()
        .name("amita-meta-audit".to_owned())
        .spawn(move || run(&client, &heard))
        .context(failed)?;
    Ok(())
}

/// The address at which the server reaches itself.
fn reachable(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

fn run(client: &Client, heard: &Heard) {
    let mut allowances = Allowances::new(EACH, ALL, Instant::now());
    loop {
        let (refused, missed) = match heard.next(LOOK) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = Instant::now();
        for (name, count) in missed {
            allowances.miss(&name, count, now);
        }
        let Some(missed) = allowances.take(&refused.peer.name, now) else {
            continue;
        };
        let draft = audit::refused(&refused.peer, refused.source, refused.call.as_ref(), refused.asked);
        let draft = draft.adding(&missed.text());
        if let Err(why) = audit::append(client, &draft) {
            log::warn!(
                "{} was refused {}, and the audit log has it not: {why}",
                refused.peer,
                refused.asked
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, EACH, reachable};
    use amita_control::audit::RETENTION;
    use std::time::Duration;

    #[test]
    fn refusals_take_a_quarter_of_what_is_kept_at_most_and_no_name_takes_all_of_it() {
        let long = Duration::from_secs(400 * 24 * 3600);
        assert!(ALL.within(long) <= RETENTION.records / 4);
        assert!(3 * EACH.within(long) <= ALL.within(long));
    }

    #[test]
    fn the_server_reaches_itself_where_it_listens() {
        for (listens, reached) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("192.0.2.7:3", "192.0.2.7:3"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), reached);
        }
    }
}
