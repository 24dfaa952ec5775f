//! What was changed since a snapshot: `qemu:dirty-bitmap:`.

use super::*;
use crate::wire::{chunk, command_flag as flag, info as item, state, transmission_flag};

const HOLE: u32 = state::HOLE | state::ZERO;

/// Behind the greeting, with structured replies, and with snapshots of those names of the volume.
fn greeted(snapshots: &[&str]) -> Client {
    let mut client = Client::greeted();
    snapshots
        .iter()
        .for_each(|name| client.volumes.take_snapshot(client.volume, name));
    client.send(&option(opt::STRUCTURED_REPLY, &[]));
    client.option_replies();
    client
}

/// The contexts of that export, listed.
fn list(client: &mut Client, export: &str) -> Vec<(u32, String)> {
    client.send(&option(opt::LIST_META_CONTEXT, &meta(export, &[])));
    contexts(client)
}

fn set(client: &mut Client, queries: &[&str]) -> Vec<(u32, String)> {
    ask(client, opt::SET_META_CONTEXT, queries)
}

/// The contexts that an option is answered with: their numbers and names.
fn ask(client: &mut Client, number: u32, queries: &[&str]) -> Vec<(u32, String)> {
    client.send(&option(number, &meta("vol", queries)));
    contexts(client)
}

fn contexts(client: &mut Client) -> Vec<(u32, String)> {
    let mut replies = client.option_replies();
    let last = replies.pop().expect("an answer");
    assert_eq!(last.kind, reply::ACK, "{last:?}");
    let context = |found: OptionReply| {
        assert_eq!(found.kind, reply::META_CONTEXT);
        let (id, name) = found.data.split_first_chunk().expect("a number");
        (u32::from_be_bytes(*id), String::from_utf8(name.to_vec()).expect("text"))
    };
    replies.into_iter().map(context).collect()
}

fn go(client: &mut Client) {
    client.send(&option(opt::GO, &info("vol", &[])));
    let last = client.option_replies().pop().expect("a reply to GO");
    assert_eq!(last.kind, reply::ACK);
}

/// The answer to a request for the status: the extents of each context.
fn status(client: &mut Client, flags: u16, offset: u64, length: u32) -> Vec<(u32, Vec<(u32, u32)>)> {
    client.send(&request(flags, command::BLOCK_STATUS, 4, offset, length));
    let chunks = client.chunks();
    let last = chunks.len() - 1;
    let contexts = chunks.iter().enumerate().map(|(place, found)| {
        let is_last = if place == last { chunk::FLAG_DONE } else { 0 };
        assert_eq!((found.kind, found.flags), (chunk::BLOCK_STATUS, is_last));
        let mut reader = Reader(&found.payload);
        let id = reader.u32().expect("a context");
        let mut extents = Vec::new();
        while let (Some(length), Some(flags)) = (reader.u32(), reader.u32()) {
            extents.push((length, flags));
        }
        (id, extents)
    });
    contexts.collect()
}

#[test]
fn snapshots_are_listed() {
    let mut client = greeted(&["monday", "tuesday"]);
    let name = |name: &str| (0, name.to_owned());
    let (base, all) = (
        name("base:allocation"),
        [name("qemu:dirty-bitmap:monday"), name("qemu:dirty-bitmap:tuesday")],
    );
    let list = opt::LIST_META_CONTEXT;
    assert_eq!(
        ask(&mut client, list, &[]),
        [base.clone(), all[0].clone(), all[1].clone()]
    );
    for wildcard in ["qemu:", "qemu:dirty-bitmap:"] {
        assert_eq!(ask(&mut client, list, &[wildcard]), all, "{wildcard}");
    }
    assert_eq!(ask(&mut client, list, &["base:"]), [base]);
    let queries = ["qemu:dirty-bitmap:tuesday", "qemu:dirty-bitmap:sunday", "qemu:other"];
    assert_eq!(ask(&mut client, list, &queries), all[1..]);
}

/// Whoever lists an export's contexts asks about the export first, and gives up where nobody knows it.
#[test]
fn a_snapshot_is_told_of_before_it_is_opened() {
    let mut client = greeted(&["monday", "tuesday"]);
    client.send(&option(
        opt::INFO,
        &info("vol@tuesday", &[item::NAME, item::DESCRIPTION]),
    ));
    let told = client.option_replies();
    let kinds: Vec<u32> = told.iter().map(|reply| reply.kind).collect();
    assert_eq!(kinds, [reply::INFO, reply::INFO, reply::INFO, reply::ACK], "{told:?}");
    let mut export = Reader(&told[0].data);
    assert_eq!((export.u16(), export.u64()), (Some(item::EXPORT), Some(16 * MIB)));
    let flags = export.u16().expect("flags");
    assert_ne!(flags & transmission_flag::READ_ONLY, 0);
    assert_eq!(told[1].data[2..], *b"vol@tuesday");
    assert_eq!(client.service.open_count, 0, "it was only looked at");
    let name = |name: &str| (0, name.to_owned());
    let expected = [name("base:allocation"), name("qemu:dirty-bitmap:monday")];
    assert_eq!(list(&mut client, "vol@tuesday"), expected, "older ones only");
    assert_eq!(list(&mut client, "vol@monday"), expected[..1]);
    for nothing in ["vol@sunday", "vol@", "@tuesday", "other@tuesday", "vol@tuesday@monday"] {
        client.send(&option(opt::INFO, &info(nothing, &[])));
        assert_eq!(client.option_reply().kind, reply::ERR_UNKNOWN, "{nothing}");
    }
    client.send(&option(opt::GO, &info("vol@tuesday", &[])));
    let opened = client.option_replies();
    assert_eq!(
        opened[0].data, told[0].data,
        "what is told when it is opened is the same"
    );
    assert_eq!(client.service.open_count, 1);
}

#[test]
fn what_is_not_there_is_not_set() {
    let mut client = greeted(&["monday"]);
    let queries = [
        "qemu:",
        "qemu:dirty-bitmap:",
        "qemu:dirty-bitmap:sunday",
        "qemu:allocation-depth",
    ];
    assert_eq!(set(&mut client, &queries), []);
    let long = format!("qemu:dirty-bitmap:{}", "x".repeat(3000));
    assert_eq!(set(&mut client, &[&long]), []);
    go(&mut client);
    client.send(&request(0, command::BLOCK_STATUS, 4, 0, 4096));
    assert_eq!(client.chunks()[0].kind, chunk::ERROR, "no context is left");
    // Not of a volume that is not there either, nor when nobody can say.
    let mut client = greeted(&["monday"]);
    client.send(&option(
        opt::SET_META_CONTEXT,
        &meta("other", &["qemu:dirty-bitmap:monday", "base:allocation"]),
    ));
    let replies = client.option_replies();
    assert_eq!(replies[0].data, b"\0\0\0\x01base:allocation");
    assert_eq!(replies.len(), 2);
    client.service.refusal = Some(amita_frontend::OpenError::Unavailable("no metadata".to_owned()));
    client.send(&option(
        opt::SET_META_CONTEXT,
        &meta("vol", &["qemu:dirty-bitmap:monday"]),
    ));
    assert_eq!(client.option_replies()[0].kind, reply::ERR_POLICY);
}

#[test]
fn snapshots_are_not_asked_for_without_end() {
    let names: Vec<String> = (0..9).map(|number| format!("qemu:dirty-bitmap:{number}")).collect();
    let queries: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut client = greeted(&["0", "8"]);
    client.send(&option(opt::SET_META_CONTEXT, &meta("vol", &queries)));
    assert_eq!(client.option_replies()[0].kind, reply::ERR_TOO_BIG);
    assert_eq!(set(&mut client, &queries[..8]), [(1, names[0].clone())]);
}

#[test]
fn changes_are_told() {
    let mut client = greeted(&[]);
    go(&mut client);
    client.send(&write(1, MIB - 4096, &[1; 8192]));
    let volumes = client.volumes.clone();
    let mut client = greeted(&[]);
    client.service = MemoryService::new(volumes.clone(), client.pool.clone());
    volumes.take_snapshot(client.volume, "monday");
    let queries = ["qemu:dirty-bitmap:monday", "base:allocation"];
    assert_eq!(
        set(&mut client, &queries),
        [(1, "base:allocation".to_owned()), (2, queries[0].to_owned())]
    );
    go(&mut client);
    client.send(&write(1, MIB, &[1; 100]));
    client.send(&request(0, command::TRIM, 2, 3 * MIB, 8192));
    client.send(&write(3, 3 * MIB, &[1; 1]));
    client.output.clear();
    let size = 16 * MIB as u32;
    let mib = MIB as u32;
    let allocated = vec![
        (mib - 4096, HOLE),
        (8192, 0),
        (2 * mib - 4096, HOLE),
        (4096, 0),
        (size - 3 * mib - 4096, HOLE),
    ];
    let changed = vec![
        (mib, 0),
        (4096, 1),
        (2 * mib - 4096, 0),
        (4096, 1),
        (size - 3 * mib - 4096, 0),
    ];
    // The second block of the trim was never written: nothing is kept of that.
    assert_eq!(status(&mut client, 0, 0, size), [(1, allocated), (2, changed)]);
    let one = status(&mut client, flag::REQ_ONE, 0, size);
    assert_eq!(one, [(1, vec![(mib - 4096, HOLE)]), (2, vec![(mib, 0)])]);
    let middle = status(&mut client, 0, MIB + 10, 4090);
    assert_eq!(middle, [(1, vec![(4086, 0), (4, HOLE)]), (2, vec![(4086, 1), (4, 0)])]);
    assert_eq!(client.front.extent_bytes(), 0, "nothing is kept of what was answered");
}

#[test]
fn the_answer_is_bounded_for_all_contexts_together() {
    let mut client = Client::with(Config::default(), 64 * MIB, 4 << 20);
    client.send(&3u32.to_be_bytes());
    client.output.clear();
    let names: Vec<String> = (0..8).map(|number| format!("qemu:dirty-bitmap:{number}")).collect();
    let mut queries: Vec<&str> = names.iter().map(String::as_str).collect();
    queries.push("base:allocation");
    for number in 0..8 {
        client.volumes.take_snapshot(client.volume, &number.to_string());
    }
    client.send(&option(opt::STRUCTURED_REPLY, &[]));
    client.option_replies();
    assert_eq!(set(&mut client, &queries).len(), 9);
    go(&mut client);
    for block in 0..5000 {
        client.send(&write(1, block * 8192, &[1; 4096]));
    }
    client.output.clear();
    // Half of it is asked for when the first is known.
    client.runs = false;
    client.send(&request(0, command::BLOCK_STATUS, 4, 0, 64 << 20));
    assert!(
        client.front.extent_bytes() <= 4200 * 8,
        "{}",
        client.front.extent_bytes()
    );
    client.runs = true;
    client.settle();
    client.output.clear();
    let answer = status(&mut client, 0, 0, 64 << 20);
    assert_eq!(answer.len(), 9);
    for (context, extents) in answer {
        assert!((455..1000).contains(&extents.len()), "{context}: {}", extents.len());
        let (even, odd) = if context == 1 { (0, HOLE) } else { (1, 0) };
        let flags = |at: usize| if at.is_multiple_of(2) { even } else { odd };
        assert!(
            extents
                .iter()
                .enumerate()
                .all(|(at, found)| *found == (4096, flags(at)))
        );
    }
}
