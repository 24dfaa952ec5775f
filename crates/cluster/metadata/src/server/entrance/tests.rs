//! A flood from many addresses of this machine (all of 127.0.0.0/8, RFC 1122, section 3.2.1.3).

use super::*;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
const KNOWN: Ipv4Addr = Ipv4Addr::new(127, 9, 0, 1);

async fn call(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    socket.connect(to).await
}

/// Takes connections until there is one from there, or for so long; how many were let in, and was it?
async fn take(
    entrance: &mut Entrance,
    listener: &TcpListener,
    wanted: Option<Ipv4Addr>,
    length: Duration,
) -> (u64, bool) {
    let (mut admitted, end) = (0, tokio::time::sleep(length));
    tokio::pin!(end);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, from) = accepted.expect("descriptors are left");
                let is_in = entrance.admits(&stream, from);
                admitted += u64::from(is_in);
                if is_in && wanted.is_some_and(|wanted| IpAddr::from(wanted) == from.ip()) {
                    return (admitted, true);
                }
            }
            () = entrance.next_look() => {}
            () = &mut end => return (admitted, false),
        }
    }
}

#[test]
fn strangers_have_a_budget_and_who_has_shown_himself_comes_in_beside_them() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let mut entrance = Entrance::new(&listener).expect("a descriptor");
        let mut calls = JoinSet::new();
        let flood = |calls: &mut JoinSet<io::Result<TcpStream>>, count: u32| {
            for number in 0..count {
                let from = Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250 + 1) as u8);
                calls.spawn(call(from, address));
            }
        };
        flood(&mut calls, 900);
        let (mut admitted, _) = take(&mut entrance, &listener, None, Duration::from_millis(500)).await;
        let budget = |entrance: &Entrance| {
            let rate = ACCEPTS.strangers;
            u64::from(rate.burst) + entrance.now().0 * u64::from(rate.per_second) / 1_000_000_000 + 1
        };
        assert!(admitted <= budget(&entrance), "{admitted}");
        assert!(admitted >= u64::from(ACCEPTS.strangers.burst), "{admitted}");
        entrance.has_shown(KNOWN.into());
        for _ in 0..5 {
            flood(&mut calls, 100);
            let known = tokio::spawn(call(KNOWN, address));
            let (more, came) = take(&mut entrance, &listener, Some(KNOWN), PATIENCE).await;
            assert!(came, "who has shown himself is kept out");
            known.await.expect("it ends").expect("connected");
            admitted += more - 1;
        }
        assert!(admitted <= budget(&entrance), "{admitted}");
        // Others come in later, when they are patient.
        let late = Ipv4Addr::new(127, 8, 0, 1);
        calls.shutdown().await;
        let patient = tokio::spawn(call(late, address));
        let (_, came) = take(&mut entrance, &listener, Some(late), PATIENCE).await;
        assert!(came);
        patient.await.expect("it ends").expect("connected");
    });
}

#[test]
fn of_those_who_have_shown_themselves_the_latest_are_kept() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut entrance = Entrance::new(&listener).expect("a descriptor");
        let host = |number: usize| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + number as u32));
        for number in 0..MAX_KNOWN {
            entrance.has_shown(host(number));
        }
        entrance.has_shown(host(0));
        entrance.has_shown(host(1000));
        assert_eq!(entrance.known.len(), MAX_KNOWN);
        assert!(entrance.known.contains(&host(0)) && entrance.known.contains(&host(1000)));
        assert!(!entrance.known.contains(&host(1)));
        // Whoever has a connection stays, and each of his counts.
        let stays = entrance.stays();
        let (first, second) = (stays.begin(host(2)), stays.begin(host(2)));
        drop(first);
        for number in 0..2 * MAX_KNOWN {
            entrance.has_shown(host(2000 + number));
        }
        assert!(entrance.known.contains(&host(2)) && entrance.known.len() == MAX_KNOWN);
        drop(second);
        entrance.has_shown(host(5000));
        assert!(!entrance.known.contains(&host(2)) && stays.lock().is_empty());
        // Where all are here one more is not known.
        let all: Vec<Stay> = entrance.known.iter().map(|known| stays.begin(*known)).collect();
        entrance.has_shown(host(6000));
        assert!(!entrance.known.contains(&host(6000)) && entrance.known.len() == all.len());
    });
}

#[test]
fn who_is_refused_is_told_so_by_a_reset() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let mut entrance = Entrance::new(&listener).expect("a descriptor");
        // They are there before anybody is kept out.
        let mut calls = Vec::new();
        for _ in 0..ACCEPTS.source.burst + 20 {
            let client = call(KNOWN, address).await.expect("connected");
            calls.push((client, listener.accept().await.expect("accepted")));
        }
        let mut refused = 0;
        for (mut client, (stream, from)) in calls {
            let is_in = entrance.admits(&stream, from);
            drop(stream);
            let end = client.read(&mut [0]).await;
            if is_in {
                assert_eq!(end.expect("closed"), 0);
            } else {
                assert_eq!(end.expect_err("reset").kind(), io::ErrorKind::ConnectionReset);
                refused += 1;
            }
        }
        assert!((10..=20).contains(&refused), "{refused}");
    });
}
