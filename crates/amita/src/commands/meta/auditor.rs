//! What the metadata's server refuses is in the audit log: nobody else can know of it.
//!
//! A thread of its own writes the records, as the server's own identity, by the server's own door: nothing of the server waits for it.
//! Who is refused all the time does not fill the log: what comes too fast is counted.

use amita_audit::Allowance;
use amita_control::audit;
use amita_identity::Live;
use amita_metadata::Client;
use amita_metadata::client::{Options, Tls};
use amita_metadata::server::{Refusals, Refused};
use amita_terminal::error::{Context, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// So many refusals at once are told, and one more after each pause.
const MAX_REFUSALS: u32 = 128;
const PAUSE: Duration = Duration::from_secs(10);

/// Starts the thread. It ends with the server, which holds the other end.
pub(super) fn start(live: &Arc<Live>, server: SocketAddr, refusals: Refusals, heard: Receiver<Refused>) -> Result<()> {
    let options = Options {
        tls: Some(Tls::of(live)),
        ..Options::default()
    };
    let endpoint = format!("https://{}", reachable(server));
    let failed = || "cannot write the audit log".to_owned();
    let client = Client::connect_with(&[endpoint], options).context(failed)?;
    std::thread::Builder::new()
        .name("amita-meta-audit".to_owned())
        .spawn(move || run(&client, &refusals, &heard))
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

fn run(client: &Client, refusals: &Refusals, heard: &Receiver<Refused>) {
    let mut allowance = Allowance::new(MAX_REFUSALS, PAUSE, Instant::now());
    while let Ok(refused) = heard.recv() {
        allowance.miss(refusals.missed());
        let Some(missed) = allowance.take(Instant::now()) else {
            continue;
        };
        let mut draft = audit::refused(&refused.peer, refused.source, refused.call.as_ref(), refused.asked);
        if missed > 0 {
            draft
                .text
                .push_str(&format!(" ({missed} more were refused since the last such record)"));
        }
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
    use super::reachable;

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
