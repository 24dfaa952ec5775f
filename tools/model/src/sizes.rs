//! The sizes at which the rules are checked. Each looks at something else closely, and leaves the rest out.
//!
//! What is reached at one size is not multiplied with what is reached at another: see `docs/testing.md` for what that leaves open.

use crate::config::{Kind, Past, Size, Start};

/// Whole blocks 0 and 1 of chunk 0.
fn blocks() -> Vec<Kind> {
    vec![
        Kind {
            chunk: 0,
            block: 0,
            sectors: 0b11,
        },
        Kind {
            chunk: 0,
            block: 1,
            sectors: 0b11,
        },
    ]
}

/// One block in each of two chunks.
fn two_chunks() -> Vec<Kind> {
    vec![
        Kind {
            chunk: 0,
            block: 0,
            sectors: 0b11,
        },
        Kind {
            chunk: 1,
            block: 0,
            sectors: 0b11,
        },
    ]
}

/// One store is out, and lacks something that the others have acknowledged.
#[must_use]
pub fn behind() -> Start {
    Start {
        out: 1,
        past: vec![Past {
            kind: 0,
            inside: true,
            outside: false,
        }],
    }
}

/// One store is out, and has something that the others never had.
#[must_use]
pub fn astray() -> Start {
    Start {
        out: 1,
        past: vec![Past {
            kind: 0,
            inside: false,
            outside: true,
        }],
    }
}

/// One store is out, and has two writes that the others never had: as many as a window of two allows.
#[must_use]
pub fn far_astray() -> Start {
    let past = |kind| Past {
        kind,
        inside: false,
        outside: true,
    };
    Start {
        out: 1,
        past: vec![past(0), past(1)],
    }
}

fn two() -> Size {
    Size {
        stores: 2,
        kinds: blocks(),
        ..Size::default()
    }
}

/// Reads beside writes, an eviction and a takeover.
#[must_use]
pub fn reads() -> Size {
    Size {
        writes: 2,
        evictions: 1,
        reads: 1,
        ..two()
    }
}

/// Reads while a store comes back, and beside an eviction and a takeover after that.
#[must_use]
pub fn reads_and_return() -> Size {
    let starts = vec![Start { out: 1, past: vec![] }];
    Size {
        writes: 1,
        evictions: 1,
        additions: 1,
        reads: 1,
        starts,
        ..two()
    }
}

/// Somebody compares and writes, beside writes, an eviction and a takeover.
#[must_use]
pub fn compares() -> Size {
    Size {
        kinds: vec![blocks()[0]],
        writes: 3,
        window: 2,
        evictions: 1,
        compares: 1,
        ..two()
    }
}

/// As [`reads`], and requests and fences take time on their way.
#[must_use]
pub fn travel() -> Size {
    Size {
        travel: true,
        ..reads()
    }
}

/// Fences on their way while a store goes and comes back.
#[must_use]
pub fn travel_and_return() -> Size {
    Size {
        travel: true,
        generations: 2,
        ..reads_and_return()
    }
}

/// Blocks of a kept chunk rot while parts of them are written, beside a read and a takeover, where no store may be evicted.
#[must_use]
pub fn rotten() -> Size {
    let kind = |sectors| Kind {
        chunk: 0,
        block: 0,
        sectors,
    };
    let past = Past {
        kind: 0,
        inside: true,
        outside: true,
    };
    Size {
        stores: 2,
        generations: 2,
        min_copies: 2,
        kinds: vec![kind(0b11), kind(0b01)],
        writes: 4,
        window: 2,
        rots: 1,
        reads: 1,
        starts: vec![Start {
            out: 0,
            past: vec![past],
        }],
        ..Size::default()
    }
}

/// Rotten everywhere, at the worst moments.
#[must_use]
pub fn rotten_twice() -> Size {
    Size {
        rots: 2,
        reads: 0,
        ..rotten()
    }
}

/// A store goes with a write that the others end as damaged, and comes back.
#[must_use]
pub fn rotten_and_return() -> Size {
    Size {
        min_copies: 1,
        generations: 1,
        evictions: 2,
        additions: 1,
        reads: 0,
        ..rotten()
    }
}

/// A store starts anew, beside a read and a takeover.
#[must_use]
pub fn start() -> Size {
    Size {
        writes: 1,
        evictions: 1,
        reads: 1,
        crashes: 1,
        ..two()
    }
}

/// What is accepted is not durable yet: two writes under way, a crash, a broken link, an eviction, a takeover.
#[must_use]
pub fn durability() -> Size {
    Size {
        writes: 2,
        window: 2,
        evictions: 1,
        crashes: 1,
        resets: 1,
        volatile: true,
        ..two()
    }
}

/// A store goes and comes back, beside writes and a takeover.
#[must_use]
pub fn returns() -> Size {
    Size {
        writes: 2,
        evictions: 2,
        additions: 1,
        ..two()
    }
}

/// It goes again, and comes back again.
#[must_use]
pub fn returns_twice() -> Size {
    Size {
        additions: 2,
        ..returns()
    }
}

/// Three stores, of which one comes back.
#[must_use]
pub fn three() -> Size {
    Size {
        stores: 3,
        writes: 2,
        evictions: 1,
        additions: 1,
        starts: vec![behind(), astray()],
        ..two()
    }
}

/// Parts of a block are written while a store comes back.
#[must_use]
pub fn parts() -> Size {
    let part = |sectors| Kind {
        chunk: 0,
        block: 0,
        sectors,
    };
    Size {
        kinds: vec![part(0b01), part(0b10)],
        writes: 3,
        evictions: 1,
        additions: 1,
        starts: vec![behind(), astray()],
        ..two()
    }
}

/// Three owners, one after the other, while a store comes back.
#[must_use]
pub fn generations() -> Size {
    Size {
        generations: 3,
        writes: 2,
        evictions: 1,
        additions: 1,
        starts: vec![behind(), astray()],
        ..two()
    }
}

/// Two writes under way at once while a store comes back that had two of its own.
#[must_use]
pub fn window() -> Size {
    Size {
        writes: 4,
        window: 2,
        evictions: 1,
        additions: 1,
        starts: vec![far_astray()],
        ..two()
    }
}

/// A store comes back, and either side of the resync starts anew in the middle of it.
#[must_use]
pub fn crashes() -> Size {
    let starts = vec![behind(), astray()];
    Size {
        writes: 2,
        evictions: 1,
        additions: 1,
        crashes: 1,
        volatile: true,
        starts,
        ..two()
    }
}

/// Two chunks of one volume.
#[must_use]
pub fn chunks() -> Size {
    let starts = vec![Start { out: 1, past: vec![] }, behind()];
    Size {
        kinds: two_chunks(),
        chunks: 2,
        generations: 1,
        writes: 3,
        evictions: 1,
        additions: 1,
        starts,
        ..two()
    }
}

/// Two volumes with one chunk each, and two owners each.
#[must_use]
pub fn volumes() -> Size {
    let starts = vec![Start { out: 1, past: vec![] }];
    Size {
        kinds: two_chunks(),
        chunks: 2,
        volumes: 2,
        writes: 1,
        additions: 1,
        starts,
        ..two()
    }
}

/// A disk loses a write that it had called durable.
#[must_use]
pub fn lies() -> Size {
    Size {
        generations: 1,
        writes: 2,
        reads: 1,
        lies: 1,
        ..two()
    }
}

/// Links that do not keep the order.
#[must_use]
pub fn disorder() -> Size {
    Size {
        writes: 2,
        window: 2,
        evictions: 1,
        ordered: false,
        ..two()
    }
}

/// No coordinator: a store falls silent, and only a sequencer can evict it.
#[must_use]
pub fn without_coordinator() -> Size {
    Size {
        writes: 1,
        evictions: 1,
        coordinator: false,
        sequencers_evict: true,
        ..two()
    }
}

/// All sizes of `make test`, by name.
#[must_use]
pub fn small() -> Vec<(&'static str, Size)> {
    vec![
        ("reads", reads()),
        ("reads and return", reads_and_return()),
        ("start", start()),
        ("travel", travel()),
        ("compares", compares()),
        ("rotten", rotten()),
        ("rotten twice", rotten_twice()),
        ("rotten and return", rotten_and_return()),
        ("durability", durability()),
        ("returns", returns()),
        ("three", three()),
        ("parts", parts()),
        ("generations", generations()),
        ("window", window()),
        ("crashes", crashes()),
        ("chunks", chunks()),
        (
            "volumes",
            Size {
                generations: 1,
                ..volumes()
            },
        ),
        ("lies", lies()),
        ("disorder", disorder()),
        ("without coordinator", without_coordinator()),
    ]
}

/// Larger ones, for `make soak`.
#[must_use]
pub fn large() -> Vec<(&'static str, Size)> {
    vec![
        (
            "returns, travelling",
            Size {
                travel: true,
                ..returns()
            },
        ),
        ("reads and return, travelling", travel_and_return()),
        ("volumes and takeovers", volumes()),
        ("large: returns twice", returns_twice()),
        (
            "large: volumes",
            Size {
                evictions: 1,
                starts: vec![Start::default()],
                ..volumes()
            },
        ),
        (
            "large: crashes",
            Size {
                crashes: 2,
                ..crashes()
            },
        ),
        (
            "large: chunks",
            Size {
                generations: 2,
                writes: 2,
                ..chunks()
            },
        ),
        (
            "large: parts",
            Size {
                evictions: 2,
                ..parts()
            },
        ),
        (
            "large: three and reads",
            Size {
                stores: 3,
                window: 2,
                ..reads()
            },
        ),
        ("large: three return", Size { stores: 3, ..returns() }),
        (
            "large: generations",
            Size {
                writes: 3,
                ..generations()
            },
        ),
        (
            "large: three, reads and return",
            Size {
                stores: 3,
                ..reads_and_return()
            },
        ),
    ]
}
