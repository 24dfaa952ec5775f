use super::*;

fn group() -> GroupSlot {
    GroupSlot::new(0)
}

fn tasks() -> Tasks {
    Tasks::new(3 << ID_BITS)
}

#[test]
fn an_id_names_its_task_and_nothing_later() {
    let mut tasks = tasks();
    let first = tasks.add(Kind::RenewLease, group(), None);
    let id = tasks.id(first);
    assert_eq!(id.0 >> ID_BITS, 3);
    assert_eq!(tasks.find(id), Some(first));
    tasks.remove(first);
    assert_eq!(tasks.find(id), None);
    let second = tasks.add(Kind::RenewLease, group(), None);
    assert_eq!((second, tasks.find(id)), (first, None));
    assert_eq!(tasks.find(RequestId(id.0 ^ 1 << 50)), None);
    assert_eq!(tasks.find(RequestId(u64::MAX)), None);
}

#[test]
fn a_stamp_goes_round() {
    let mut tasks = tasks();
    let slot = tasks.add(Kind::RenewLease, group(), None);
    tasks.tasks[slot].stamp = (1 << STAMP_BITS) - 1;
    let last = tasks.id(slot);
    tasks.remove(slot);
    tasks.add(Kind::RenewLease, group(), None);
    assert_eq!(tasks.find(last), None);
    assert_eq!(tasks.id(slot), RequestId(3 << ID_BITS | slot.at() as u64));
}

#[test]
fn lists_keep_order_and_lose_what_is_taken_out() {
    let mut tasks = tasks();
    let slots: Vec<TaskSlot> = (0..5).map(|_| tasks.add(Kind::Orphan, group(), None)).collect();
    let mut list = List::default();
    for &slot in &slots {
        tasks.push(&mut list, slot);
    }
    let all = |tasks: &Tasks, list: &List| {
        let mut found = Vec::new();
        let mut cursor = list.head();
        while let Some(slot) = cursor {
            found.push(slot);
            cursor = tasks.next(slot);
        }
        found
    };
    assert_eq!(all(&tasks, &list), slots);
    for gone in [2, 0, 4, 1, 3] {
        tasks.unlink(&mut list, slots[gone]);
        assert!(!all(&tasks, &list).contains(&slots[gone]));
        assert_eq!(list.tail(), all(&tasks, &list).last().copied());
    }
    assert!(list.is_empty());
}

#[test]
fn reads_age_in_the_order_in_which_they_were_sent() {
    let mut tasks = tasks();
    let slots: Vec<TaskSlot> = (0..4).map(|_| tasks.add(Kind::Orphan, group(), None)).collect();
    for (at, &slot) in slots.iter().enumerate() {
        tasks.age(slot, Time(at as u64 + 1));
    }
    tasks.age(slots[0], Time(9));
    assert_eq!(tasks.oldest(), Some(slots[1]));
    tasks.rest(slots[1]);
    tasks.rest(slots[1]);
    tasks.remove(slots[2]);
    assert_eq!(tasks.oldest(), Some(slots[3]));
    tasks.rest(slots[3]);
    tasks.rest(slots[0]);
    assert_eq!(tasks.oldest(), None);
}
