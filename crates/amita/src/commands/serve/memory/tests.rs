use super::{BESIDE_BYTES, Plan};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 64 << 30;

fn plan(index: Option<u64>) -> Plan {
    Plan {
        cores: 4,
        buffers: 256 * MIB,
        index,
    }
}

#[test]
fn without_a_limit_indexes_get_what_was_said_or_half_of_the_memory() {
    assert_eq!(plan(None).index_bytes(MEMORY, None).unwrap(), MEMORY / 2);
    assert_eq!(plan(Some(MIB)).index_bytes(MEMORY, None).unwrap(), MIB);
}

#[test]
fn beneath_a_limit_indexes_get_what_buffers_leave() {
    let limit = BESIDE_BYTES + 4 * 256 * MIB + 100 * MIB;
    assert_eq!(plan(None).index_bytes(MEMORY, Some(limit)).unwrap(), 100 * MIB);
    assert_eq!(plan(None).index_bytes(MEMORY, Some(1 << 50)).unwrap(), MEMORY / 2);
    assert_eq!(
        plan(Some(100 * MIB)).index_bytes(MEMORY, Some(limit)).unwrap(),
        100 * MIB
    );
}

#[test]
fn what_does_not_fit_is_refused_with_the_limit_and_what_to_do() {
    let limit = BESIDE_BYTES + 4 * 256 * MIB + 100 * MIB;
    let refused = plan(Some(101 * MIB)).index_bytes(MEMORY, Some(limit)).unwrap_err();
    assert!(refused.to_string().contains("101 MiB of --index-memory"), "{refused}");
    let refused = plan(None)
        .index_bytes(MEMORY, Some(1536 * MIB))
        .unwrap_err()
        .to_string();
    for part in [
        "1.5 GiB of address space",
        "256 MiB of --buffers",
        "4 cores",
        "ulimit -v",
        "LimitAS=",
    ] {
        assert!(refused.contains(part), "no {part:?} in {refused}");
    }
    let most = Plan {
        cores: usize::MAX,
        buffers: u64::MAX,
        index: Some(u64::MAX),
    };
    assert!(
        most.index_bytes(MEMORY, Some(1 << 60)).is_err(),
        "nothing is added up beyond what there is"
    );
}
