//! Every option, legal and illegal.

use super::*;
use crate::wire::{info as item, transmission_flag as flag};
use crate::{MAX_BLOCK_BYTES, TlsMode};
use amita_frontend::service::OpenError;
use std::time::Duration;

const EXPORT_FLAGS: u16 = flag::HAS_FLAGS
    | flag::SEND_FLUSH
    | flag::SEND_FUA
    | flag::SEND_TRIM
    | flag::SEND_WRITE_ZEROES
    | flag::CAN_MULTI_CONN
    | flag::SEND_CACHE
    | flag::SEND_FAST_ZERO;

#[test]
fn client_flags() {
    for (flags, accepted) in [
        (0u32, true),
        (1, true),
        (2, true),
        (3, true),
        (4, false),
        (1 << 31, false),
    ] {
        let mut client = Client::new();
        client.send(&flags.to_be_bytes());
        assert_eq!(client.closed.is_none(), accepted, "client flags {flags:#x}");
    }
    let mut client = Client::new();
    client.send(&request(0, command::READ, 1, 0, 512));
    match client.closed {
        Some(CloseReason::Protocol(what)) => assert!(what.contains("oldstyle"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_with_one_answer() {
    let long = vec![b'x'; 4097];
    let name = |bytes: &[u8]| {
        let mut data = (bytes.len() as u32).to_be_bytes().to_vec();
        data.extend(bytes);
        data.extend([0, 0]);
        data
    };
    let mut beyond = meta("vol", &["base:"]);
    beyond.push(0);
    let many = vec!["base:allocation"; 257];
    let cases: &[(&str, u32, Vec<u8>, u32)] = &[
        ("an unknown option", 77, vec![1, 2, 3], reply::ERR_UNSUP),
        ("PEEK_EXPORT, withdrawn", 4, vec![], reply::ERR_UNSUP),
        ("extended headers", 11, vec![], reply::ERR_UNSUP),
        ("structured replies", opt::STRUCTURED_REPLY, vec![], reply::ACK),
        (
            "structured replies with data",
            opt::STRUCTURED_REPLY,
            vec![0],
            reply::ERR_INVALID,
        ),
        ("a list with data", opt::LIST, vec![0], reply::ERR_INVALID),
        ("TLS with data", opt::STARTTLS, vec![0], reply::ERR_INVALID),
        ("TLS where there is none", opt::STARTTLS, vec![], reply::ERR_POLICY),
        (
            "info on what is not there",
            opt::INFO,
            info("nothing", &[]),
            reply::ERR_UNKNOWN,
        ),
        (
            "go to what is not there",
            opt::GO,
            info("nothing", &[]),
            reply::ERR_UNKNOWN,
        ),
        ("info without data", opt::INFO, vec![], reply::ERR_INVALID),
        (
            "info cut in the name",
            opt::INFO,
            vec![0, 0, 0, 9, b'v'],
            reply::ERR_INVALID,
        ),
        (
            "info cut in the items",
            opt::INFO,
            vec![0, 0, 0, 0, 0, 2, 0, 1],
            reply::ERR_INVALID,
        ),
        (
            "info with more than it says",
            opt::INFO,
            [info("vol", &[]), vec![0]].concat(),
            reply::ERR_INVALID,
        ),
        ("a length that wraps", opt::GO, vec![0xff; 8], reply::ERR_INVALID),
        ("a name with NUL", opt::GO, name(b"v\0l"), reply::ERR_INVALID),
        (
            "a name that is no UTF-8",
            opt::GO,
            name(b"\xff\xfe"),
            reply::ERR_INVALID,
        ),
        ("a name that is too long", opt::GO, name(&long), reply::ERR_TOO_BIG),
        ("too much data", opt::GO, vec![0; 65537], reply::ERR_TOO_BIG),
        (
            "too much data of an unknown option",
            99,
            vec![0; 1 << 20],
            reply::ERR_TOO_BIG,
        ),
        (
            "listing contexts too early",
            opt::LIST_META_CONTEXT,
            meta("vol", &[]),
            reply::ERR_INVALID,
        ),
        (
            "setting contexts too early",
            opt::SET_META_CONTEXT,
            meta("vol", &["base:allocation"]),
            reply::ERR_INVALID,
        ),
    ];
    let structured: &[(&str, u32, Vec<u8>, u32)] = &[
        (
            "contexts of an unknown namespace",
            opt::LIST_META_CONTEXT,
            meta("vol", &["x-y:z"]),
            reply::ACK,
        ),
        (
            "an unknown leaf",
            opt::LIST_META_CONTEXT,
            meta("vol", &["base:dirty"]),
            reply::ACK,
        ),
        (
            "setting by a wildcard",
            opt::SET_META_CONTEXT,
            meta("vol", &["base:"]),
            reply::ACK,
        ),
        ("setting nothing", opt::SET_META_CONTEXT, meta("vol", &[]), reply::ACK),
        (
            "a query without namespace",
            opt::SET_META_CONTEXT,
            meta("vol", &["allocation"]),
            reply::ERR_INVALID,
        ),
        (
            "a query cut short",
            opt::SET_META_CONTEXT,
            vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
            reply::ERR_INVALID,
        ),
        (
            "queries without end",
            opt::SET_META_CONTEXT,
            vec![0, 0, 0, 0, 255, 255, 255, 255],
            reply::ERR_INVALID,
        ),
        (
            "data behind the queries",
            opt::SET_META_CONTEXT,
            beyond,
            reply::ERR_INVALID,
        ),
        (
            "too many queries",
            opt::SET_META_CONTEXT,
            meta("vol", &many),
            reply::ERR_TOO_BIG,
        ),
    ];
    for (prepared, cases) in [(false, cases), (true, structured)] {
        for (what, number, data, kind) in cases {
            let mut client = Client::greeted();
            if prepared {
                client.send(&option(opt::STRUCTURED_REPLY, &[]));
                assert_eq!(client.option_reply().kind, reply::ACK);
            }
            client.send(&option(*number, data));
            let answer = client.option_reply();
            assert_eq!((answer.option, answer.kind), (*number, *kind), "{what}");
            assert_eq!(
                kind >> 31 == 1,
                !answer.data.is_empty(),
                "{what}: an error has a text and nothing else has"
            );
            // Whatever it was, the connection goes on.
            assert_eq!(client.closed, None, "{what}");
            client.start(true);
        }
    }
}

#[test]
fn what_ends_the_connection() {
    let long = vec![b'x'; 4097];
    let mut huge = option(99, &[]);
    huge[12..].copy_from_slice(&(1u32 << 20 | 1).to_be_bytes());
    let cases: &[(&str, Vec<u8>)] = &[
        ("no magic", vec![0; 16]),
        ("an export that is not there", option(opt::EXPORT_NAME, b"nothing")),
        ("an export's name that is too long", option(opt::EXPORT_NAME, &long)),
        ("an export's name that is no UTF-8", option(opt::EXPORT_NAME, b"\xff")),
        ("more than a mebibyte of data", huge),
    ];
    for (what, bytes) in cases {
        let mut client = Client::greeted();
        client.send(bytes);
        assert!(client.closed.is_some(), "{what}");
        assert!(client.output.is_empty(), "{what}: nothing is said");
    }
}

#[test]
fn abort_is_acknowledged_and_ends_the_connection() {
    for data in [&[][..], b"whatever"] {
        let mut client = Client::greeted();
        client.send(&option(opt::ABORT, data));
        assert_eq!(
            client.option_reply(),
            OptionReply {
                option: opt::ABORT,
                kind: reply::ACK,
                data: vec![]
            }
        );
        assert_eq!(client.closed, Some(CloseReason::Goodbye));
    }
}

#[test]
fn list_names_all_exports() {
    let mut client = Client::greeted();
    client.volumes.add("another", MIB, 4096, true);
    client.send(&option(opt::LIST, &[]));
    let replies = client.option_replies();
    assert_eq!(
        replies.iter().map(|reply| reply.kind).collect::<Vec<_>>(),
        [reply::SERVER, reply::SERVER, reply::ACK]
    );
    assert_eq!(replies[0].data, b"\0\0\0\x07another1 MiB in memory");
    assert_eq!(replies[1].data, b"\0\0\0\x03vol16 MiB in memory");
    client.service.refusal = Some(OpenError::ShuttingDown);
    client.send(&option(opt::LIST, &[]));
    assert_eq!(client.option_reply().kind, reply::ERR_SHUTDOWN);
}

#[test]
fn info_says_what_is_asked_for() {
    let mut client = Client::greeted();
    client.send(&option(
        opt::INFO,
        &info("vol", &[item::NAME, item::DESCRIPTION, item::BLOCK_SIZE, 99]),
    ));
    let replies = client.option_replies();
    let datas: Vec<_> = replies
        .iter()
        .filter(|reply| reply.kind == reply::INFO)
        .map(|reply| &reply.data[..])
        .collect();
    let mut export = vec![0, 0];
    export.extend((16 * MIB).to_be_bytes());
    export.extend(EXPORT_FLAGS.to_be_bytes());
    let mut sizes = vec![0, 3];
    [1, 4096, MAX_BLOCK_BYTES]
        .iter()
        .for_each(|size: &u32| sizes.extend(size.to_be_bytes()));
    assert_eq!(datas, [&export[..], b"\0\x01vol", b"\0\x0216 MiB in memory", &sizes]);
    assert_eq!(replies.last().map(|reply| reply.kind), Some(reply::ACK));
    assert_eq!(
        client.service.open_count, 0,
        "to inform is not to open: that would take the volume over"
    );

    client.send(&option(opt::INFO, &info("", &[])));
    let replies = client.option_replies();
    assert_eq!(
        replies[1].data, b"\0\x01vol",
        "the default export is the only one, and its name is told"
    );

    client.send(&option(opt::STRUCTURED_REPLY, &[]));
    client.send(&option(opt::GO, &info("vol", &[])));
    let replies = client.option_replies();
    let flags = u16::from_be_bytes(replies[1].data[10..].try_into().unwrap());
    assert_eq!(
        flags,
        EXPORT_FLAGS | flag::SEND_DF,
        "DF is offered with structured replies only"
    );
    assert_eq!(client.service.open_count, 1);
}

#[test]
fn a_read_only_export_offers_no_writes() {
    let mut client = Client::greeted();
    client.volumes.add("ro", MIB, 4096, true);
    client.send(&option(opt::INFO, &info("ro", &[])));
    let replies = client.option_replies();
    let flags = u16::from_be_bytes(replies[0].data[10..].try_into().unwrap());
    assert_eq!(
        flags & (flag::READ_ONLY | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES),
        flag::READ_ONLY
    );
}

#[test]
fn there_is_no_default_among_several() {
    let mut client = Client::greeted();
    client.volumes.add("another", MIB, 4096, false);
    client.send(&option(opt::GO, &info("", &[])));
    assert_eq!(client.option_reply().kind, reply::ERR_UNKNOWN);
}

#[test]
fn export_name_enters_with_and_without_zeroes() {
    for (flags, length) in [(3u32, 10), (1, 134), (0, 134)] {
        let mut client = Client::new();
        client.settle();
        client.take(18);
        client.send(&flags.to_be_bytes());
        client.send(&option(opt::EXPORT_NAME, b"vol"));
        let answer = client.take(length);
        assert_eq!(answer[..8], (16 * MIB).to_be_bytes());
        assert_eq!(answer[8..10], EXPORT_FLAGS.to_be_bytes());
        assert!(answer[10..].iter().all(|byte| *byte == 0));
        client.send(&request(0, command::FLUSH, 5, 0, 0));
        assert_eq!(client.simple(), (5, 0));
    }
}

#[test]
fn contexts_are_listed_and_set() {
    let mut client = Client::greeted();
    client.send(&option(opt::STRUCTURED_REPLY, &[]));
    client.option_replies();
    for queries in [&[][..], &["base:"], &["x:y", "base:allocation"]] {
        client.send(&option(opt::LIST_META_CONTEXT, &meta("vol", queries)));
        let replies = client.option_replies();
        assert_eq!(replies.len(), 2, "{queries:?}");
        assert_eq!(replies[0].kind, reply::META_CONTEXT);
        assert_eq!(replies[0].data, b"\0\0\0\0base:allocation");
    }
    client.send(&option(opt::SET_META_CONTEXT, &meta("vol", &["base:allocation"])));
    assert_eq!(client.option_replies()[0].data, b"\0\0\0\x01base:allocation");
}

#[test]
fn contexts_hold_for_the_export_that_they_were_set_for_last() {
    let status = request(0, command::BLOCK_STATUS, 1, 0, 4096);
    let set = |name: &str, queries: &[&str]| option(opt::SET_META_CONTEXT, &meta(name, queries));
    let cases: &[(&str, Vec<Vec<u8>>, bool)] = &[
        ("set", vec![set("vol", &["base:allocation"])], true),
        ("never set", vec![], false),
        ("set for another", vec![set("other", &["base:allocation"])], false),
        (
            "then set for another",
            vec![set("vol", &["base:allocation"]), set("other", &["base:allocation"])],
            false,
        ),
        (
            "then set to nothing",
            vec![set("vol", &["base:allocation"]), set("vol", &[])],
            false,
        ),
        (
            "then failed to set",
            vec![set("vol", &["base:allocation"]), set("vol", &["nonsense"])],
            false,
        ),
    ];
    for (what, options, works) in cases {
        let mut client = Client::greeted();
        client.send(&option(opt::STRUCTURED_REPLY, &[]));
        options.iter().for_each(|bytes| client.send(bytes));
        client.send(&option(opt::GO, &info("vol", &[])));
        client.option_replies();
        client.send(&status);
        let chunks = client.chunks();
        let is_status = chunks[0].kind == crate::wire::chunk::BLOCK_STATUS;
        assert_eq!(is_status, *works, "{what}");
    }
}

#[test]
fn refusals_of_the_service_are_told() {
    let cases = [
        (OpenError::NotFound, reply::ERR_UNKNOWN),
        (OpenError::ShuttingDown, reply::ERR_SHUTDOWN),
        (
            OpenError::Unavailable("its owner does not answer".into()),
            reply::ERR_POLICY,
        ),
        (OpenError::Refused("it is being deleted".into()), reply::ERR_POLICY),
    ];
    for (error, kind) in cases {
        let mut client = Client::greeted();
        client.service.refusal = Some(error.clone());
        client.send(&option(opt::GO, &info("vol", &[])));
        let answer = client.option_reply();
        assert_eq!(answer.kind, kind, "{error:?}");
        let text = String::from_utf8(answer.data).unwrap();
        assert!(text.contains(&error.to_string()) && text.contains("\"vol\""), "{text}");
        client.service.refusal = None;
        client.start(false);
    }
}

#[test]
fn the_handshake_has_a_time_limit_that_the_service_does_not_use_up() {
    let mut client = Client::greeted_as(Who::Local);
    let limit = Config::default().handshake_timeout;
    assert_eq!(client.front.deadline(), Some(Time(0).plus(limit)));
    // The service takes a minute to open the volume.
    client.runs = false;
    client.now = Time(0).plus(Duration::from_secs(1));
    client.receive(&option(opt::GO, &info("vol", &[])));
    assert_eq!(client.front.deadline(), None, "the client's clock stands still");
    assert!(!client.front.wants_input());
    client.now = client.now.plus(Duration::from_secs(60));
    client.service.events.clear();
    client.service.events.push_back((
        FRONT,
        amita_frontend::service::Event::Opened {
            tag: 1,
            result: Err(OpenError::NotFound),
        },
    ));
    client.settle();
    assert_eq!(client.option_reply().kind, reply::ERR_UNKNOWN);
    assert_eq!(
        client.front.deadline(),
        Some(Time(0).plus(limit + Duration::from_secs(60)))
    );
    client.now = Time(0).plus(limit + Duration::from_secs(60));
    let flow = client
        .front
        .tick(client.now, &mut client.outbox, &client.pool, &mut client.service);
    assert_eq!(
        flow,
        Flow::Close {
            reason: CloseReason::Timeout
        }
    );
    // In the transmission phase there is none: a quiet client is a good client.
    assert_eq!(Client::started(true).front.deadline(), None);
}

/// Whatever one asks for, it takes the service a moment to say that there is no such thing. How often is it asked until the
/// connection is closed, half a second each?
fn asks_before_the_end(mut client: Client) -> u64 {
    client.runs = false;
    let question = option(opt::GO, &info("nothing", &[]));
    let mut asked = 0;
    while client.closed.is_none() {
        asked += 1;
        assert!(asked <= 1000, "it is still there");
        client.receive(&question);
        client.now = client.now.plus(Duration::from_millis(500));
        client.service.events.clear();
        let result = Err(OpenError::NotFound);
        let answer = amita_frontend::service::Event::Opened { tag: asked, result };
        client.service.events.push_back((FRONT, answer));
        client.settle();
        client.output.clear();
        let flow = client
            .front
            .tick(client.now, &mut client.outbox, &client.pool, &mut client.service);
        client.note(flow);
    }
    assert_eq!(client.closed, Some(CloseReason::Timeout));
    asked
}

#[test]
fn nobody_who_asks_again_and_again_is_there_for_ever() {
    let stranger = asks_before_the_end(Client::greeted());
    assert!(stranger > 20, "what a node that starts needs is not the client's");
    assert!(stranger <= 60, "{stranger}");
    let ours = asks_before_the_end(Client::greeted_as(Who::Local));
    assert!((120..=180).contains(&ours), "{ours}: who is known has a minute more");
}

#[test]
fn a_client_from_the_network_is_a_stranger_until_it_has_an_export() {
    assert!(Client::greeted().front.is_stranger());
    assert!(!Client::started(true).front.is_stranger());
    let mut outbox = Outbox::new();
    for who in [Who::Local, Who::Program] {
        let front = NbdFront::accept(Arc::new(Config::default()), FRONT, who, Time(0), &mut outbox);
        assert!(!front.is_stranger());
    }
}

#[test]
fn a_flood_of_options_is_cut_off() {
    let mut client = Client::greeted();
    let flood = option(99, &[]).repeat(1000);
    for _ in 0..20 {
        if client.closed.is_none() {
            client.send(&flood);
        }
        client.output.clear();
    }
    assert!(matches!(client.closed, Some(CloseReason::Protocol(_))));
}

#[test]
fn an_option_may_come_a_byte_at_a_time() {
    let mut client = Client::greeted();
    for byte in option(opt::GO, &info("vol", &[])) {
        client.send(&[byte]);
    }
    assert_eq!(client.option_replies().len(), 2);
}

#[test]
fn the_open_volume_is_closed_with_the_connection() {
    let mut client = Client::started(false);
    assert_eq!(client.service.open_count, 1);
    assert_eq!(client.front.volume().map(|volume| volume.name.as_str()), Some("vol"));
    client.front.closed(&mut client.service);
    assert_eq!(client.service.open_count, 0);
    let mut client = Client::greeted();
    client.front.closed(&mut client.service);
    assert_eq!(client.service.open_count, 0);
    assert_eq!(Config::default().tls.map(|tls| tls.mode()), None);
    assert_eq!(TlsMode::default(), TlsMode::Off);
}
