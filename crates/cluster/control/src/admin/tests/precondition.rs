use super::*;
use amita_types::map::About;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What an operator sees of a volume here.
fn look(meta: &dyn Transact) -> Result<(u64, About)> {
    let found = volume(meta, "v")?;
    Ok((found.size_bytes, about(meta, found.id)?))
}

fn precondition(meta: &dyn Transact) -> ((u64, About), Precondition) {
    let keys = |(_, about): &(u64, About)| vec![map::volume_key("v"), map::about_key(about.volume)];
    Precondition::of(meta, look, keys).unwrap()
}

fn same(shown: &(u64, About)) -> impl Fn(&dyn Transact) -> Result<bool> {
    move |meta| Ok(look(meta)? == *shown)
}

fn label(meta: &dyn Transact, key: &str) -> Result<About> {
    let labels = BTreeMap::from([(key.to_owned(), String::new())]);
    label_volume(meta, "v", &labels, &[])
}

fn with_volume() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "v", "main", 4096).unwrap();
    meta
}

/// Another gateway owns the volume: the record changes, and nothing that an operator has set.
fn take_over(meta: &dyn Transact) {
    let found = volume(meta, "v").unwrap();
    let generation = Generation(found.generation.0 + 1);
    let next = Volume { generation, ..found };
    meta.txn(&Call::put(map::volume_key("v"), json(&next))).unwrap();
}

type Other<'a> = dyn Fn(&dyn Transact) + 'a;

/// Does something just before the write of that number.
struct Between<'a> {
    meta: &'a Mutex<State>,
    before: usize,
    writes: Cell<usize>,
    other: RefCell<Option<&'a Other<'a>>>,
}

impl<'a> Between<'a> {
    fn of(meta: &'a Mutex<State>, before: usize, other: &'a Other<'a>) -> Between<'a> {
        Between {
            meta,
            before,
            writes: Cell::new(0),
            other: RefCell::new(Some(other)),
        }
    }
}

impl Transact for Between<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if !call.is_read_only() {
            if self.writes.get() == self.before
                && let Some(other) = self.other.borrow_mut().take()
            {
                other(self.meta);
            }
            self.writes.set(self.writes.get() + 1);
        }
        self.meta.txn(call)
    }
}

#[test]
fn what_comes_between_the_look_and_the_write_is_seen() {
    let meta = with_volume();
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    let other = |meta: &dyn Transact| {
        label(meta, "other").unwrap();
    };
    let between = Between::of(&meta, 0, &other);
    let late = held.run(&between, &still, |meta| resize_volume(meta, "v", 8192));
    assert_eq!(late, Err(AdminError::Changed));
    let (size_bytes, about) = look(&meta).unwrap();
    assert_eq!(
        (size_bytes, about.labels.len()),
        (4096, 1),
        "nothing but the other's change"
    );
    // The other way round: who comes second finds it.
    let (shown, held) = precondition(&meta);
    let (other_shown, other_held) = precondition(&meta);
    let still = same(&shown);
    let other_still = same(&other_shown);
    held.run(&meta, &still, |meta| resize_volume(meta, "v", 8192)).unwrap();
    let late = other_held.run(&meta, &other_still, |meta| label(meta, "late"));
    assert_eq!(late, Err(AdminError::Changed));
    assert_eq!(look(&meta).unwrap().1.labels.len(), 1);
}

#[test]
fn a_record_that_changes_for_other_reasons_is_no_reason() {
    let meta = with_volume();
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    let between = Between::of(&meta, 0, &take_over);
    held.run(&between, &still, |meta| resize_volume(meta, "v", 8192))
        .unwrap();
    let found = volume(&meta, "v").unwrap();
    assert_eq!((found.size_bytes, found.generation), (8192, Generation(1)));
    // What the change itself compares, and what it answers then, stay its own.
    let taken = held.run(&meta, &still, |meta| create_volume(meta, "v", "main", 4096));
    assert!(matches!(taken, Err(AdminError::Exists { .. })), "{taken:?}");
}

#[test]
fn what_a_change_has_written_itself_does_not_stop_it() {
    let meta = with_volume();
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    assert!(!held.has_written());
    held.run(&meta, &still, |meta| resize_volume(meta, "v", 8192)).unwrap();
    assert!(held.has_written());
    held.run(&meta, &still, |meta| label(meta, "first")).unwrap();
    held.run(&meta, &still, |meta| label(meta, "second")).unwrap();
    let now = held.again(&meta, look).unwrap().expect("nobody else has changed it");
    assert_eq!((now.0, now.1.labels.len()), (8192, 2));
    label(&meta, "third").unwrap();
    assert_eq!(held.again(&meta, look), Ok(None));
    let late = held.run(&meta, &still, |meta| label(meta, "fourth"));
    assert_eq!(late, Err(AdminError::Changed));
}

/// What is shown may be of the first time that something was read, and it may be there by the second.
#[test]
fn what_comes_while_it_is_looked_at_is_seen() {
    let meta = with_volume();
    let id = volume(&meta, "v").unwrap().id;
    let key = map::about_key(id);
    let is_known = |meta: &dyn Transact| -> Result<bool> { Ok(get::<About>(meta, &map::about_key(id))?.is_some()) };
    for by_prefix in [false, true] {
        remove(&meta, &key).unwrap();
        let look = |held: &dyn Transact| -> Result<bool> {
            let first = match by_prefix {
                false => is_known(held)?,
                true => !list::<About>(held, &map::about_prefix())?.is_empty(),
            };
            label(&meta, "other")?;
            assert!(is_known(held)?);
            Ok(first)
        };
        let (shown, held) = Precondition::of(&meta, look, |_| vec![key.clone()]).unwrap();
        assert!(!shown);
        let still = |meta: &dyn Transact| -> Result<bool> { Ok(is_known(meta)? == shown) };
        let late = held.run(&meta, &still, |meta| label(meta, "late"));
        assert_eq!(late, Err(AdminError::Changed), "{by_prefix}");
    }
}

#[test]
fn one_that_is_gone_and_made_anew_is_another() {
    let meta = with_volume();
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    let other = |meta: &dyn Transact| {
        delete_volume(meta, "v", false, 9, &mut || false).unwrap();
        create_volume(meta, "v", "main", 4096).unwrap();
    };
    let between = Between::of(&meta, 0, &other);
    let late = held.run(&between, &still, |meta| {
        delete_volume(meta, "v", false, 9, &mut || false)
    });
    assert_eq!(late, Err(AdminError::Changed));
    assert!(volume(&meta, "v").is_ok());
    // One that is only gone is none.
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    let gone = |meta: &dyn Transact| {
        delete_volume(meta, "v", false, 9, &mut || false).unwrap();
    };
    let between = Between::of(&meta, 0, &gone);
    let late = held.run(&between, &still, |meta| resize_volume(meta, "v", 8192));
    assert!(matches!(late, Err(AdminError::NoSuch { .. })), "{late:?}");
}

#[test]
fn what_was_asked_for_beside_is_taken_back() {
    let meta = with_volume();
    let open = Volume {
        owner: Some(NodeId(2)),
        generation: Generation(1),
        ..volume(&meta, "v").unwrap()
    };
    meta.txn(&Call::put(map::volume_key("v"), json(&open))).unwrap();
    let closing = map::closing_key(open.id);
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    // While the owner is waited for, somebody changes the volume.
    let mut pauses = 0;
    let late = held.run(&meta, &still, |held| {
        delete_volume(held, "v", false, 9, &mut || {
            pauses += 1;
            if pauses == 1 {
                label(&meta, "other").unwrap();
            }
            pauses < 2
        })
    });
    assert!(matches!(late, Err(AdminError::OwnerSilent { .. })), "{late:?}");
    assert_eq!(get::<map::Closing>(&meta, &closing).unwrap(), None);
    // The owner has closed it, and it is not deleted all the same.
    let (shown, held) = precondition(&meta);
    let still = same(&shown);
    let late = held.run(&meta, &still, |held| {
        delete_volume(held, "v", false, 9, &mut || {
            label(&meta, "another").unwrap();
            remove(&meta, &closing).unwrap()
        })
    });
    assert_eq!(late, Err(AdminError::Changed));
    assert_eq!(look(&meta).unwrap().1.labels.len(), 2);
}

/// Wherever another change comes in while a volume is closed and deleted, it is found.
#[test]
fn no_moment_is_left_between_the_comparison_and_the_change() {
    for before in 0..3 {
        let meta = with_volume();
        let open = Volume {
            owner: Some(NodeId(2)),
            ..volume(&meta, "v").unwrap()
        };
        meta.txn(&Call::put(map::volume_key("v"), json(&open))).unwrap();
        let (shown, held) = precondition(&meta);
        let still = same(&shown);
        let has_come = Cell::new(false);
        let other = |meta: &dyn Transact| {
            label(meta, "other").unwrap();
            has_come.set(true);
        };
        let between = Between::of(&meta, before, &other);
        let done = held.run(&between, &still, |held| {
            delete_volume(held, "v", false, 9, &mut || {
                remove(&meta, &map::closing_key(open.id)).is_ok()
            })
        });
        match done {
            Ok(_) => assert!(!has_come.get() && volume(&meta, "v").is_err(), "{before}"),
            Err(why) => assert_eq!((why, has_come.get()), (AdminError::Changed, true), "{before}"),
        }
        // It is asked to be closed, and deleted: these are the writes.
        assert_eq!(has_come.get(), before < 2, "{before}");
    }
}
