use super::*;
use amita_types::{Epoch, GroupId, GroupIndex, PoolId, StoreId};

#[test]
fn that_a_store_left_a_group_is_a_detail_and_that_writes_wait_is_not() {
    let group = GroupId {
        pool: PoolId(1),
        index: GroupIndex(3),
    };
    let store = StoreId(7);
    let evicted = Warning::Evicted {
        group,
        store,
        epoch: Epoch(5),
    };
    let told = FromCore::from(evicted);
    assert!(
        matches!(&told, FromCore::Detail(text) if text.contains("is no longer in sync since epoch 5")),
        "{told:?}"
    );
    let below = Warning::BelowMinCopies {
        group,
        store,
        in_sync: 1,
        min_copies: 2,
    };
    assert!(matches!(FromCore::from(below), FromCore::Warning(_)));
}
