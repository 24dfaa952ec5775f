use super::*;
use crate::SocketId;

impl Bench {
    fn send(&mut self, node: u32, socket: SocketId, bytes: &[u8]) {
        let data: Segments = bytes.chunks(7000).map(Slice::copy_from).collect();
        self.driver(node).send(socket, data, Token(50));
    }

    /// How the sends of a node ended.
    fn sends(&mut self, node: u32) -> Vec<Result<(), io::ErrorKind>> {
        let sends = self.done(node).into_iter().filter_map(|done| match done.outcome {
            Outcome::Sent { result, .. } => Some(result.map_err(|error| error.kind())),
            _ => None,
        });
        sends.collect()
    }

    fn connect_result(&mut self, node: u32) -> Option<Result<SocketId, io::ErrorKind>> {
        self.done(node).into_iter().find_map(|done| match done.outcome {
            Outcome::Connected { result } => Some(result.map_err(|error| error.kind())),
            _ => None,
        })
    }
}

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn bytes_arrive_in_order_whatever_the_pieces() {
    let mut short = 0;
    for seed in 0..100 {
        let mut bench = Bench::new(seed, 2);
        let (one, two) = bench.connect();
        let text = pattern(200_000, seed as u8);
        bench.send(1, one, &text);
        bench.run(SHORT);
        assert_eq!(bench.sends(1), [Ok(())], "within the window a send ends at once");
        let (bytes, end) = bench.drain(2, two);
        assert!(bytes == text && end.is_none());
        short += bench.count("net.short_receive") + bench.count("net.small_piece");
    }
    assert!(short > 100);
}

#[test]
fn a_slow_receiver_makes_the_sender_wait() {
    let mut bench = Bench::new(1, 2);
    let (one, two) = bench.connect();
    let text = pattern(1 << 20, 1);
    bench.send(1, one, &text);
    bench.run(Duration::from_secs(10));
    assert_eq!(bench.sends(1), [], "the window is full, and that is no reason to break");
    let (bytes, end) = bench.drain(2, two);
    assert!(bytes == text && end.is_none());
    assert_eq!(bench.sends(1), [Ok(())]);
    assert!(bench.count("net.window_full") > 0);
}

#[test]
fn a_close_gives_the_peer_what_was_sent_and_then_the_end() {
    let mut bench = Bench::new(2, 2);
    let (one, two) = bench.connect();
    bench.send(1, one, b"last words");
    bench.driver(1).close(one);
    let (bytes, end) = bench.drain(2, two);
    assert_eq!(bytes, b"last words");
    assert_eq!(end.unwrap().unwrap(), 0);
    bench.send(2, two, b"anybody?");
    bench.run(SHORT);
    assert_eq!(bench.sends(2), [Ok(())], "a send says nothing about arrival");
    bench.send(2, two, b"no");
    assert_eq!(
        {
            bench.run(SHORT);
            bench.sends(2)
        },
        [Err(io::ErrorKind::ConnectionReset)]
    );
}

#[test]
fn closing_ends_what_is_under_way_and_the_id_is_dead() {
    let mut bench = Bench::new(3, 2);
    let (one, _) = bench.connect();
    bench.receive(1, one, 100);
    bench.send(1, one, &vec![1; 1 << 20]);
    bench.driver(1).close(one);
    bench.receive(1, one, 100);
    bench.run(SHORT);
    let kinds: Vec<_> = bench
        .done(1)
        .into_iter()
        .map(|done| match done.outcome {
            Outcome::Received { result, .. } => result.unwrap_err().kind(),
            Outcome::Sent { result, .. } => result.unwrap_err().kind(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::NotConnected
        ]
    );
}

#[test]
fn closing_with_unread_bytes_resets_the_peer() {
    let mut bench = Bench::new(4, 2);
    let (one, two) = bench.connect();
    bench.send(1, one, b"never read");
    bench.run(SHORT);
    bench.driver(2).close(two);
    bench.done(1);
    let (_, end) = bench.drain(1, one);
    assert_eq!(end.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(bench.count("net.closed_unread"), 1);
}

#[test]
fn connects_are_refused_where_nobody_listens_and_hang_where_nothing_answers() {
    let mut bench = Bench::new(5, 3);
    bench.driver(1).connect(SocketAddr::new(node_ip(2), 99), Token(1));
    bench.run(SHORT);
    assert_eq!(bench.connect_result(1), Some(Err(io::ErrorKind::ConnectionRefused)));
    bench.world.power_cut(2);
    for (address, node) in [
        (node_ip(2), 2),
        (node_ip(999), 999),
        ("192.168.0.1".parse().unwrap(), 0),
    ] {
        bench.driver(1).connect(SocketAddr::new(address, 99), Token(1));
        bench.run(Duration::from_millis(4900));
        assert_eq!(
            bench.connect_result(1),
            (node == 999).then_some(Err(io::ErrorKind::ConnectionRefused))
        );
        bench.run(Duration::from_millis(200));
        assert_eq!(
            bench.connect_result(1),
            (node != 999).then_some(Err(io::ErrorKind::TimedOut))
        );
    }
    assert_eq!(bench.count("net.connect_timed_out"), 2);
}

#[test]
fn a_partition_holds_bytes_until_it_heals() {
    let mut bench = Bench::new(6, 2);
    let (one, two) = bench.connect();
    bench.world.partition(1, 2);
    let text = pattern(100_000, 3);
    bench.send(1, one, &text);
    assert_eq!(bench.drain(2, two).0, b"");
    bench.run(Duration::from_secs(2));
    bench.world.heal(1, 2);
    bench.run(SHORT);
    let mut bytes = Vec::new();
    for done in bench.done(2) {
        if let Outcome::Received { buffer, result } = done.outcome {
            bytes.extend_from_slice(&buffer[..result.unwrap()]);
        }
    }
    bytes.extend(bench.drain(2, two).0);
    assert!(bytes == text);
    assert!(bench.count("net.held") > 0 && bench.count("net.timed_out") == 0);
}

#[test]
fn what_a_partition_holds_is_lost_when_its_sender_aborts_the_connection() {
    for aborts in [false, true] {
        let mut bench = Bench::new(6, 2);
        let (one, two) = bench.connect();
        bench.world.partition(1, 2);
        let text = pattern(1000, 3);
        bench.send(1, one, &text);
        bench.run(SHORT);
        match aborts {
            true => bench.driver(1).abort(one),
            false => bench.driver(1).close(one),
        }
        bench.run(SHORT);
        bench.world.heal(1, 2);
        let (bytes, end) = bench.drain(2, two);
        assert!(if aborts { bytes.is_empty() } else { bytes == text });
        assert!(end.is_some(), "it hears that the other end is gone");
    }
}

#[test]
fn a_long_partition_breaks_the_end_that_sent_and_the_other_learns_when_it_sends() {
    let mut bench = Bench::new(7, 2);
    let (one, two) = bench.connect();
    bench.world.partition(1, 2);
    bench.send(1, one, b"hello");
    bench.receive(1, one, 100);
    bench.receive(2, two, 100);
    bench.run(Duration::from_millis(4900));
    assert_eq!(bench.done(1).len(), 1, "only the send has ended");
    bench.run(Duration::from_millis(200));
    match bench.done(1).pop().unwrap().outcome {
        Outcome::Received { result, .. } => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut),
        other => panic!("{other:?}"),
    }
    bench.world.heal(1, 2);
    bench.run(Duration::from_secs(1));
    assert!(bench.done(2).is_empty(), "the other end has noticed nothing");
    bench.send(2, two, b"are you there?");
    bench.run(SHORT);
    let mut kinds: Vec<_> = bench
        .done(2)
        .into_iter()
        .map(|done| match done.outcome {
            Outcome::Sent { result, .. } => format!("{result:?}"),
            Outcome::Received { result, .. } => format!("{:?}", result.unwrap_err().kind()),
            other => panic!("{other:?}"),
        })
        .collect();
    kinds.sort();
    assert_eq!(kinds, ["ConnectionReset", "Ok(())"]);
}

#[test]
fn in_an_asymmetric_partition_bytes_arrive_and_their_sender_breaks_all_the_same() {
    let mut bench = Bench::new(8, 2);
    let (one, two) = bench.connect();
    bench.world.cut_link(2, 1);
    bench.send(1, one, b"one way");
    let (bytes, _) = bench.drain(2, two);
    assert_eq!(bytes, b"one way");
    bench.done(1);
    bench.receive(1, one, 10);
    bench.run(Duration::from_secs(6));
    match bench.done(1).pop().unwrap().outcome {
        Outcome::Received { result, .. } => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut),
        other => panic!("{other:?}"),
    }
    bench.driver(1).connect(SocketAddr::new(node_ip(2), 20_001), Token(3));
    bench.run(Duration::from_secs(6));
    assert_eq!(
        bench.connect_result(1),
        Some(Err(io::ErrorKind::TimedOut)),
        "the answer cannot pass"
    );
}

#[test]
fn a_connect_that_was_held_succeeds_when_the_partition_heals() {
    let mut bench = Bench::new(9, 2);
    let (_, address) = bench
        .driver(2)
        .listen(SocketAddr::new(node_ip(2), 4000), Token(1))
        .unwrap();
    bench.world.partition(1, 2);
    bench.driver(1).connect(address, Token(2));
    bench.run(Duration::from_secs(2));
    assert_eq!(bench.connect_result(1), None);
    bench.world.heal(2, 1);
    bench.run(SHORT);
    assert!(matches!(bench.connect_result(1), Some(Ok(_))));
}

#[test]
fn a_reset_cuts_frames_anywhere() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let mut bench = Bench::new(seed, 2);
        let (one, two) = bench.connect();
        let text = pattern(10_000, 1);
        bench.send(1, one, &text);
        let connection = bench.world.connections()[0];
        assert_eq!((connection.from, connection.to), (1, 2));
        bench.world.reset(connection.connection);
        assert!(bench.world.connections().is_empty());
        let (bytes, end) = bench.drain(2, two);
        assert!(text.starts_with(&bytes));
        assert_eq!(end.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        lengths.insert(bytes.len());
    }
    assert!(lengths.len() > 30);
}

#[test]
fn the_death_of_a_process_closes_its_streams_and_a_power_cut_says_nothing() {
    let mut bench = Bench::new(10, 2);
    let (one, _) = bench.connect();
    bench.world.kill(2);
    let (_, end) = bench.drain(1, one);
    assert_eq!(end.unwrap().unwrap(), 0);

    let mut bench = Bench::new(11, 2);
    let (one, _) = bench.connect();
    bench.world.power_cut(2);
    let (_, end) = bench.drain(1, one);
    assert!(end.is_none());
    bench.send(1, one, b"hello?");
    bench.run(Duration::from_secs(3));
    assert_eq!(bench.sends(1), [Ok(())]);
    // The host comes back and does not know the stream.
    bench.restart(2);
    bench.run(SHORT);
    match bench.done(1).pop().unwrap().outcome {
        Outcome::Received { result, .. } => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frozen_process_gets_nothing_and_then_everything() {
    let mut bench = Bench::new(12, 2);
    let (one, two) = bench.connect();
    bench.receive(2, two, 100);
    bench.driver(2).timer(Time(0), Token(8));
    bench.world.freeze(2, Duration::from_secs(30));
    bench.send(1, one, b"wake up");
    bench.run(Duration::from_secs(29));
    assert!(bench.done(2).is_empty());
    assert_eq!(bench.sends(1), [Ok(())]);
    bench.run(Duration::from_secs(2));
    assert_eq!(bench.done(2).len(), 2, "the bytes and the timer");
    assert_eq!(bench.count("net.timed_out"), 0, "its kernel has acknowledged");
}

#[test]
fn delays_and_bandwidth_take_their_time() {
    let mut config = SimConfig::default();
    config.net.bandwidth = 1_000_000;
    let mut bench = Bench {
        world: World::new(13, config),
        drivers: BTreeMap::new(),
        done: BTreeMap::new(),
    };
    bench.restart(1);
    bench.restart(2);
    let (one, two) = bench.connect();
    bench.world.delay_link(1, 2, Duration::from_millis(300));
    bench.send(1, one, &vec![1; 100_000]);
    bench.receive(2, two, 10);
    bench.run(Duration::from_millis(300));
    assert!(bench.done(2).is_empty(), "delayed");
    bench.run(Duration::from_millis(20));
    assert_eq!(bench.done(2).len(), 1);
    let (bytes, _) = bench.drain(2, two);
    assert!(
        bytes.len() < 100_000 || bench.world.now() > Time(400_000_000),
        "a tenth of a second for the rest"
    );
}

#[test]
fn listeners_are_exclusive_and_end_with_their_process() {
    let mut bench = Bench::new(14, 2);
    let here = SocketAddr::new(node_ip(1), 77);
    bench.driver(1).listen(here, Token(1)).unwrap();
    assert_eq!(
        bench.driver(1).listen(here, Token(1)).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    assert_eq!(
        bench.driver(2).listen(here, Token(1)).unwrap_err().kind(),
        io::ErrorKind::AddrNotAvailable
    );
    let any = SocketAddr::new("0.0.0.0".parse().unwrap(), 0);
    let (_, bound) = bench.driver(2).listen(any, Token(1)).unwrap();
    assert!(bound.ip() == node_ip(2) && bound.port() != 0);
    bench.world.kill(1);
    bench.driver(2).connect(here, Token(2));
    bench.run(SHORT);
    assert_eq!(bench.connect_result(2), Some(Err(io::ErrorKind::ConnectionRefused)));
    bench.restart(1);
    bench.driver(1).listen(here, Token(1)).unwrap();
}

impl Bench {
    /// Sends so often something that fits into a segment, and lets all of it arrive.
    fn send_often(&mut self, node: u32, socket: SocketId, times: u32) {
        for _ in 0..times {
            self.send(node, socket, &[7; 100]);
            self.run(Duration::from_millis(1));
        }
        self.run(Duration::from_secs(200));
        assert_eq!(self.sends(node).len(), times as usize);
    }

    fn path(&mut self, node: u32, socket: SocketId) -> crate::PathCounts {
        self.driver(node).path(socket).unwrap()
    }
}

#[test]
fn a_link_that_loses_one_way_is_told_from_one_that_loses_the_other_way() {
    let mut bench = Bench::new(15, 2);
    let (one, two) = bench.connect();
    bench.world.lose_link(1, 2, 100);
    bench.send_often(1, one, 400);
    bench.send_often(2, two, 400);
    let (there, back) = (bench.path(1, one), bench.path(2, two));
    assert!((20..100).contains(&there.resent), "{there:?}");
    assert!(there.sent >= 400 + there.resent, "{there:?}");
    assert_eq!(there.doubled, 0);
    assert!((20..100).contains(&back.resent), "{back:?}");
    assert_eq!(back.doubled, back.resent, "its peer had all of it");
    assert!(
        there.round_trip_us < 1000,
        "what is sent again measures nothing: {there:?}"
    );
    assert_eq!(bench.count("net.lost"), u64::from(there.resent + back.resent));
    let (bytes, end) = bench.drain(2, two);
    assert!(bytes == [7; 40_000] && end.is_none(), "all of it has arrived");
    bench.world.lose_link(1, 2, 0);
    bench.send_often(1, one, 400);
    assert_eq!(bench.path(1, one).resent, there.resent);
}

#[test]
fn what_is_lost_comes_after_a_retransmission_time_out_and_what_follows_waits_for_it() {
    let mut bench = Bench::new(16, 2);
    let (one, two) = bench.connect();
    bench.world.lose_link(1, 2, 1000);
    bench.send(1, one, b"lost");
    bench.world.lose_link(1, 2, 0);
    bench.send(1, one, b" and found");
    bench.receive(2, two, 100);
    bench.run(Duration::from_millis(190));
    assert!(bench.done(2).is_empty());
    assert_eq!(bench.sends(1), [Ok(()), Ok(())]);
    bench.run(Duration::from_secs(5));
    let mut bytes = Vec::new();
    for done in bench.done(2) {
        if let Outcome::Received { buffer, result } = done.outcome {
            bytes.extend_from_slice(&buffer[..result.unwrap()]);
        }
    }
    bytes.extend(bench.drain(2, two).0);
    assert_eq!(bytes, b"lost and found");
    assert!(bench.path(1, one).resent >= 4, "so often one segment is lost at most");
}

#[test]
fn the_round_trip_is_that_of_both_ways() {
    let mut bench = Bench::new(17, 2);
    let (one, two) = bench.connect();
    bench.send_often(1, one, 20);
    let well = bench.path(1, one);
    assert!(well.least_us > 0 && well.round_trip_us < 1000, "{well:?}");
    bench.world.delay_link(2, 1, Duration::from_millis(40));
    bench.send_often(1, one, 40);
    bench.send_often(2, two, 40);
    let (there, back) = (bench.path(1, one), bench.path(2, two));
    assert!(there.round_trip_us > 20_000 && back.round_trip_us > 20_000);
    assert!(there.least_us < 1000, "of the last minutes: {there:?}");
    assert_eq!((there.resent, back.resent), (0, 0));
}

#[test]
fn a_kernel_sends_again_while_a_link_is_cut() {
    for (from, to, had) in [(1, 2, false), (2, 1, true)] {
        let mut bench = Bench::new(18, 2);
        let (one, _) = bench.connect();
        bench.world.cut_link(from, to);
        bench.send(1, one, b"hello?");
        bench.run(Duration::from_secs(1));
        assert_eq!(bench.path(1, one).resent, 0, "it is told when it is over");
        bench.world.heal(1, 2);
        let counts = bench.path(1, one);
        assert!(counts.resent > 0, "{counts:?}");
        assert_eq!(counts.doubled, if had { counts.resent } else { 0 });
    }
}
