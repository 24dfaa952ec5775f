use amita_model::config::*;
use amita_model::state::*;
use stateright::{Checker, HasDiscoveries, Model};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut size = Size::default();
    let mut threads = 1;
    for kv in &a[1..] {
        let (k, v) = kv.split_once('=').unwrap();
        let n = v.parse::<usize>().unwrap_or(0);
        let u = n as u8;
        match k {
            "stores" => size.stores = n,
            "gens" => size.generations = n,
            "writes" => size.writes = n,
            "window" => size.window = u,
            "evict" => size.evictions = u,
            "add" => size.additions = u,
            "crash" => size.crashes = u,
            "reset" => size.resets = u,
            "reads" => size.reads = u,
            "volatile" => size.volatile = n != 0,
            "threads" => threads = n,
            "lies" => size.lies = u,
            "volumes" => size.volumes = n,
            "chunks" => size.chunks = n,
            "min" => size.min_copies = n,
            "kinds" => {
                size.kinds = v
                    .split(',')
                    .map(|k| {
                        let b = k.as_bytes();
                        Kind {
                            chunk: (b[0] - b'0') as usize,
                            block: (b[1] - b'0') as usize,
                            sectors: b[2] - b'0',
                        }
                    })
                    .collect()
            }
            "starts" => {
                size.starts = v
                    .split(',')
                    .map(|t| {
                        let mut start = Start {
                            out: (t.as_bytes()[0] - b'0') as usize,
                            past: vec![],
                        };
                        for w in t.as_bytes()[1..].chunks(2) {
                            start.past.push(Past {
                                kind: (w[0] - b'0') as usize,
                                inside: w[1] == b'i' || w[1] == b'b',
                                outside: w[1] == b'o' || w[1] == b'b',
                            });
                        }
                        start
                    })
                    .collect()
            }
            _ => panic!("{k}"),
        }
    }
    let off: Vec<Rule> = std::env::var("OFF")
        .ok()
        .map(|o| {
            o.split(',')
                .map(|n| ALL.iter().copied().find(|r| format!("{r:?}") == n).expect("rule"))
                .collect()
        })
        .unwrap_or_default();
    let model = Replication {
        size,
        off: Off::these(&off),
    };
    let t = std::time::Instant::now();
    let c = model
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .timeout(std::time::Duration::from_secs(
            std::env::var("SECS").ok().and_then(|s| s.parse().ok()).unwrap_or(120),
        ))
        .spawn_bfs()
        .join();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!(
        "unique {} generated {} depth {} done {} {:?} {}",
        c.unique_state_count(),
        c.state_count(),
        c.max_depth(),
        c.is_done(),
        t.elapsed(),
        status.lines().find(|l| l.starts_with("VmHWM")).unwrap()
    );
    for (name, path) in c.discoveries() {
        if name.contains("write is acknowledged") {
            continue;
        }
        let n = path.clone().into_actions().len();
        println!("FOUND {name}: {n} steps");
        if std::env::var("SHOW").is_ok() {
            for (s, a) in path.into_vec() {
                show(&s);
                println!("   -> {a:?}");
            }
        }
    }
}
fn show(s: &State) {
    println!(
        "  gen {:?} epoch {} raised {} fault {:?} writes {:?}",
        s.generation,
        s.epoch,
        s.raised,
        s.fault,
        s.writes[..s.written as usize]
            .iter()
            .map(|w| format!(
                "{}.{}<{}k{}{}",
                w.q,
                w.counter,
                w.after,
                w.kind,
                if w.acked { "A" } else { "" }
            ))
            .collect::<Vec<_>>()
    );
    for q in s.sequencers {
        if q.life != Life::Unborn {
            println!(
                "    q {:?} e{} {:?} read {:?}",
                q.life,
                q.epoch,
                q.chunks.map(|c| (c.open, c.issued, c.committed, c.target, c.source)),
                q.read
            );
        }
    }
    for m in s.stores {
        println!(
            "    store {}{} since {} claims {:?} disk g{:?} e{} in{} {:?} tail {:?} promised {} known {:?}",
            if m.in_sync { "IN" } else { "" },
            if m.syncing { "SYNC" } else { "" },
            m.since,
            m.claims,
            m.disk.generation,
            m.disk.epoch,
            m.disk.in_sync,
            m.disk
                .chunks
                .map(|c| (c.stream, c.base, c.blocks.map(|b| (b.last, b.sectors)))),
            m.tail.iter().filter(|t| **t != Change::None).collect::<Vec<_>>(),
            m.promised,
            m.known.map(|k| format!(
                "{:b} since{} link{:b} ans{:b} open{:?}",
                k.flags, k.since, k.link, k.answered, k.open
            ))
        );
    }
}
