use super::*;
use amita_testkit::loopback::vanish;
use std::os::unix::net::{UnixListener, UnixStream};

#[test]
fn an_echo_through_two_drivers_arrives_unaltered() {
    each_way(|config| {
        let mut server = Bench::new(config.clone());
        let (_, address) = server.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
        let text = pattern(3 << 20);
        let expected = text.clone();
        let client = std::thread::spawn(move || {
            let mut client = Bench::new(config);
            client.driver.connect(address, Token(1));
            let Outcome::Connected { result: Ok(socket) } = client.wait(1) else {
                panic!("not connected")
            };
            let data = text.chunks(100_000).map(Slice::copy_from).collect();
            client.driver.send(socket, data, Token(2));
            let mut back = Vec::new();
            while back.len() < text.len() {
                client.receive(socket, 3);
                back.extend(client.received(3).unwrap());
            }
            match client.wait(2) {
                Outcome::Sent { data, result } => assert!(data.is_empty() && result.is_ok()),
                other => panic!("{other:?}"),
            }
            client.driver.close(socket);
            back
        });
        let Outcome::Accepted { socket, peer } = server.wait(1) else {
            panic!("nobody came")
        };
        assert!(peer.ip().is_loopback());
        loop {
            server.receive(socket, 4);
            let bytes = server.received(4).unwrap();
            if bytes.is_empty() {
                break;
            }
            server.driver.send(socket, vec![Slice::copy_from(&bytes)], Token(5));
            assert!(matches!(server.wait(5), Outcome::Sent { result: Ok(()), .. }));
        }
        assert_eq!(client.join().unwrap(), expected);
    });
}

#[test]
fn more_segments_than_one_call_takes_go_out_in_order_to_a_slow_reader() {
    for zero_copy_bytes in [None, Some(1)] {
        let mut bench = Bench::new(UringConfig {
            zero_copy_bytes,
            ..UringConfig::default()
        });
        let (socket, mut peer) = bench.stream();
        let text = pattern(9 << 20);
        let data: Segments = text.chunks(3001).map(Slice::copy_from).collect();
        assert!(data.len() > 3000);
        bench.driver.send(socket, data, Token(2));
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; 9 << 20];
            let mut done = 0;
            while done < bytes.len() {
                let most = (done + 50_000).min(9 << 20);
                done += peer.read(&mut bytes[done..most]).unwrap();
            }
            bytes
        });
        assert!(matches!(bench.wait(2), Outcome::Sent { result: Ok(()), .. }));
        assert!(reader.join().unwrap() == text);
    }
}

#[test]
fn a_zero_copy_send_completes_only_when_its_memory_is_free() {
    let mut bench = Bench::new(UringConfig {
        zero_copy_bytes: Some(1),
        ..UringConfig::default()
    });
    let (socket, mut peer) = bench.stream();
    for round in 0..50u8 {
        let mut buffer = bench.driver.pool().take(100_000).unwrap();
        buffer.fill(round);
        bench.driver.send(socket, vec![buffer.freeze()], Token(2));
        let mut bytes = vec![0; 100_000];
        let reader = std::thread::spawn({
            let mut peer = peer.try_clone().unwrap();
            move || peer.read_exact(&mut bytes).map(|()| bytes)
        });
        assert!(matches!(bench.wait(2), Outcome::Sent { result: Ok(()), .. }));
        // Whoever takes the block now may fill it with anything.
        bench.driver.pool().take(100_000).unwrap().fill(255);
        assert!(reader.join().unwrap().unwrap().iter().all(|byte| *byte == round));
    }
    bench.driver.close(socket);
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_end_of_the_peers_direction_is_zero_bytes_and_the_other_direction_goes_on() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let (socket, mut peer) = bench.stream();
        bench.receive(socket, 2);
        peer.write_all(b"last words").unwrap();
        assert_eq!(bench.received(2).unwrap(), b"last words");
        peer.shutdown(Shutdown::Write).unwrap();
        for _ in 0..2 {
            bench.receive(socket, 3);
            assert_eq!(bench.received(3).unwrap(), b"");
        }
        bench.driver.send(socket, vec![Slice::copy_from(b"answer")], Token(4));
        assert!(matches!(bench.wait(4), Outcome::Sent { result: Ok(()), .. }));
        bench.driver.close(socket);
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn closing_ends_what_is_under_way_once_each_and_the_id_is_dead() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let (socket, _peer) = bench.stream();
        bench.receive(socket, 2);
        // Larger than what any socket holds: it stays under way, as the peer does not read.
        let data = vec![Slice::copy_from(&vec![7; 64 << 20])];
        bench.driver.send(socket, data, Token(3));
        assert!(bench.run(Duration::from_millis(50)).is_empty());
        bench.driver.close(socket);
        bench.driver.close(socket);
        bench.receive(socket, 4);
        bench.driver.send(socket, vec![Slice::copy_from(b"x")], Token(5));
        let mut done = bench.run(Duration::from_millis(200));
        done.sort_by_key(|done| done.token.0);
        let kinds: Vec<(u64, io::ErrorKind)> = done
            .iter()
            .map(|done| match &done.outcome {
                Outcome::Received { result: Err(error), .. } | Outcome::Sent { result: Err(error), .. } => {
                    (done.token.0, error.kind())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let (aborted, dead) = (io::ErrorKind::ConnectionAborted, io::ErrorKind::NotConnected);
        assert_eq!(kinds, [(2, aborted), (3, aborted), (4, dead), (5, dead)]);
    });
}

#[test]
fn closing_before_the_kernel_saw_the_operations_ends_them_too() {
    let mut bench = Bench::new(UringConfig::default());
    let (socket, mut peer) = bench.stream();
    bench.receive(socket, 2);
    bench.driver.close(socket);
    assert_eq!(bench.received(2).unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    let (next, _peer) = bench.stream();
    assert_ne!(next, socket, "ids are not used again");
    assert_eq!(next.0 as u32, socket.0 as u32, "but places are");
}

#[test]
fn a_reset_by_the_peer_fails_receive_and_send() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let (socket, mut peer) = bench.stream();
        bench
            .driver
            .send(socket, vec![Slice::copy_from(b"never read")], Token(2));
        assert!(matches!(bench.wait(2), Outcome::Sent { result: Ok(()), .. }));
        bench.receive(socket, 3);
        assert!(bench.run(Duration::from_millis(10)).is_empty());
        // Closing with unread bytes resets.
        let mut first = [0];
        peer.read_exact(&mut first).unwrap();
        drop(peer);
        assert_eq!(bench.received(3).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        bench.driver.send(socket, vec![Slice::copy_from(b"more")], Token(4));
        match bench.wait(4) {
            Outcome::Sent { result, .. } => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_connect_where_nobody_listens_is_refused() {
    each_way(|config| {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut bench = Bench::new(config);
        bench.driver.connect(address, Token(9));
        match bench.wait(9) {
            Outcome::Connected { result } => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionRefused),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn one_listener_accepts_many_and_an_occupied_port_is_a_clear_error() {
    let mut bench = Bench::new(UringConfig::default());
    let (_, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    let error = bench.driver.listen(address, Token(2)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let clients: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut sockets = std::collections::BTreeSet::new();
    for _ in &clients {
        let Outcome::Accepted { socket, peer } = bench.wait(1) else {
            panic!("no accept")
        };
        assert!(clients.iter().any(|client| client.local_addr().unwrap() == peer));
        sockets.insert(socket);
    }
    assert_eq!(sockets.len(), clients.len());
}

#[test]
fn an_ipv6_stream_works() {
    let mut bench = Bench::new(UringConfig::default());
    let Ok((_, address)) = bench.driver.listen("[::1]:0".parse().unwrap(), Token(1)) else {
        return eprintln!("no IPv6 here: not tested");
    };
    bench.driver.connect(address, Token(2));
    assert!(matches!(bench.wait(2), Outcome::Connected { result: Ok(_) }));
    let Outcome::Accepted { peer, .. } = bench.wait(1) else {
        panic!("no accept")
    };
    assert!(peer.is_ipv6());
}

#[test]
fn dropping_a_driver_with_operations_under_way_gives_all_memory_back() {
    let config = PoolConfig {
        classes: vec![(65_536, 2)],
        hosts: Vec::new(),
        huge_pages: false,
    };
    let pool = Pool::new(config).unwrap();
    let mut bench = Bench {
        driver: UringDriver::new(UringConfig::default(), pool.clone()).unwrap(),
        done: Vec::new(),
    };
    let (socket, _peer) = bench.stream();
    bench.receive(socket, 2);
    assert!(bench.run(Duration::from_millis(10)).is_empty());
    drop(bench);
    let both = [pool.take(65_536), pool.take(65_536)];
    assert!(
        both.iter().all(Option::is_some),
        "the receive was cancelled and its buffer came back"
    );
}

#[test]
fn a_receive_that_nothing_comes_for_gives_its_buffer_back() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let (socket, mut peer) = bench.stream();
        bench.receive(socket, 2);
        // With this poll it is handed to the kernel.
        let mut completions = Vec::new();
        bench.driver.poll(Wait::No, &mut completions);
        assert!(completions.is_empty());
        bench.driver.cancel_receive(socket);
        match bench.wait(2) {
            Outcome::Received { buffer, result } => {
                assert_eq!(buffer.len(), 64 << 10);
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Interrupted);
            }
            other => panic!("{other:?}"),
        }
        // The stream goes on.
        bench.driver.cancel_receive(socket);
        peer.write_all(b"hello").unwrap();
        bench.receive(socket, 3);
        assert_eq!(bench.received(3).unwrap(), b"hello");
    });
}

/// A Unix socket that listens in a folder of its own.
fn local() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    (folder, path, listener)
}

#[test]
fn a_unix_socket_carries_large_things_both_ways_and_says_who_came() {
    each_way(|config| {
        for zero_copy_bytes in [None, Some(1)] {
            let (_folder, path, listener) = local();
            let mut bench = Bench::new(UringConfig {
                zero_copy_bytes,
                ..config.clone()
            });
            bench.driver.listen_local(listener, Token(1)).unwrap();
            let text = pattern(3 << 20);
            let mut client = UnixStream::connect(&path).unwrap();
            let Outcome::AcceptedLocal { socket, peer } = bench.wait(1) else {
                panic!("nobody came")
            };
            assert_eq!(peer.process, std::process::id());
            let own = std::fs::metadata("/proc/self").unwrap();
            assert_eq!(peer.user, std::os::unix::fs::MetadataExt::uid(&own));
            let data = text.chunks(100_000).map(Slice::copy_from).collect();
            bench.driver.send(socket, data, Token(2));
            let sent = text.clone();
            let other_end = std::thread::spawn(move || {
                let mut back = vec![0; sent.len()];
                client.read_exact(&mut back).unwrap();
                client.write_all(&back).unwrap();
                (client, back)
            });
            assert!(matches!(bench.wait(2), Outcome::Sent { result: Ok(()), .. }));
            let mut received = Vec::new();
            while received.len() < text.len() {
                bench.receive(socket, 3);
                received.extend(bench.received(3).unwrap());
            }
            let (mut client, back) = other_end.join().unwrap();
            assert!(back == text && received == text);
            // A quiet receive gives its buffer back here too, and the end of either side is seen.
            bench.receive(socket, 4);
            assert!(bench.run(Duration::from_millis(5)).is_empty());
            bench.driver.cancel_receive(socket);
            assert_eq!(bench.received(4).unwrap_err().kind(), io::ErrorKind::Interrupted);
            bench.receive(socket, 5);
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(bench.received(5).unwrap(), b"");
            bench.driver.close(socket);
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
    });
}

#[test]
fn many_come_by_a_unix_socket_beside_the_network() {
    let (_folder, path, listener) = local();
    let mut bench = Bench::new(UringConfig::default());
    bench.driver.listen_local(listener, Token(1)).unwrap();
    let (_, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(2)).unwrap();
    // More than the standard library lets wait.
    let clients: Vec<UnixStream> = (0..500).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let _other = TcpStream::connect(address).unwrap();
    let mut sockets = std::collections::BTreeSet::new();
    for _ in &clients {
        let Outcome::AcceptedLocal { socket, .. } = bench.wait(1) else {
            panic!("no accept")
        };
        sockets.insert(socket);
    }
    assert_eq!(sockets.len(), clients.len());
    assert!(matches!(bench.wait(2), Outcome::Accepted { .. }));
}

fn accepted(bench: &mut Bench) -> (SocketId, TcpStream) {
    let (_, address) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    let peer = TcpStream::connect(address).unwrap();
    match bench.wait(1) {
        Outcome::Accepted { socket, .. } => (socket, peer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_sent_on_a_connection_is_counted() {
    let mut bench = Bench::new(UringConfig::default());
    let (socket, mut peer) = accepted(&mut bench);
    assert_eq!(bench.driver.path(socket).unwrap().sent, 0);
    let data = Slice::copy_from(&pattern(4096));
    bench.driver.send(socket, vec![data], Token(2));
    let mut came = vec![0; 4096];
    bench.wait(2);
    std::io::Read::read_exact(&mut peer, &mut came).unwrap();
    let counts = bench.driver.path(socket).unwrap();
    assert!(counts.sent >= 1 && counts.resent <= counts.sent, "{counts:?}");
    assert!(
        counts.least_us < u32::MAX && counts.doubled <= counts.resent,
        "{counts:?}"
    );
    bench.driver.close(socket);
    assert_eq!(bench.driver.path(socket), None);
}

#[test]
fn a_peer_that_vanishes_while_nothing_is_under_way_is_noticed() {
    let mut bench = Bench::new(UringConfig::default());
    let (socket, peer) = accepted(&mut bench);
    bench.driver.watch_peer(socket, Duration::from_secs(2));
    bench.receive(socket, 2);
    // It answers as long as it is there, also when its program does nothing.
    assert!(bench.run(Duration::from_secs(4)).is_empty());
    vanish(&peer).unwrap();
    let error = bench.received(2).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

fn is_missed(bench: &mut Bench, socket: SocketId) {
    let started = Instant::now();
    let mut looks = 0;
    while looks < 20 {
        assert!(started.elapsed() < Duration::from_secs(30), "it is not missed");
        bench.run(Duration::from_millis(5));
        // And it stays so, whenever one looks.
        match bench.driver.unheard(socket) {
            Some(silent) if silent >= Duration::from_secs(2) => looks += 1,
            _ => looks = 0,
        }
    }
}

#[test]
fn a_peer_that_acknowledges_nothing_is_told_from_one_that_has_no_room() {
    let mut bench = Bench::new(UringConfig::default());
    let (socket, peer) = accepted(&mut bench);
    bench.driver.watch_peer(socket, Duration::from_secs(1));
    assert_eq!(bench.driver.unheard(socket), None);

    // Its program takes nothing: what does not fit waits, for longer than the patience.
    let data: Segments = (0..64).map(|_| Slice::copy_from(&pattern(1 << 20))).collect();
    bench.driver.send(socket, data, Token(2));
    let started = Instant::now();
    while bench.driver.unheard(socket).is_some() {
        assert!(started.elapsed() < Duration::from_secs(20), "its window does not fill");
        assert!(bench.run(Duration::from_millis(5)).is_empty());
    }
    for _ in 0..60 {
        assert!(bench.run(Duration::from_millis(50)).is_empty());
        let unheard = bench.driver.unheard(socket);
        assert!(
            // The kernel there answers no more than two probes a second (`tcp_invalid_ratelimit`).
            unheard.is_none_or(|silent| silent < Duration::from_secs(2)),
            "{unheard:?}"
        );
    }

    // Its machine goes then: nothing waits to be acknowledged, and the probes of its window are not answered.
    vanish(&peer).unwrap();
    is_missed(&mut bench, socket);
    bench.driver.close(socket);

    let (socket, peer) = accepted(&mut bench);
    vanish(&peer).unwrap();
    bench.driver.send(socket, vec![Slice::copy_from(b"hello")], Token(3));
    is_missed(&mut bench, socket);
    // One that is closed, or no TCP, owes nothing.
    bench.driver.close(socket);
    assert_eq!(bench.driver.unheard(socket), None);
}
