//! Points: what was backed up comes back, at any of them, and what is shared is put once.

use super::*;
use crate::Refusal;
use crate::entry::VolumePoint;
use crate::prune;
use crate::store::Retention;
use crate::tree::{BRANCH_BYTES, LEAF_BYTES};
use crate::verify::{Scope, verify};

#[test]
fn a_volume_comes_back_at_each_of_its_points() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    // Over the borders of leaves and branches.
    let mut image = Image::new(2 * BRANCH_BYTES + LEAF_BYTES);
    let leaf = LEAF_BYTES / BLOCK;
    let branch = BRANCH_BYTES / BLOCK;
    let places = [
        0,
        1,
        2,
        63,
        64,
        65,
        leaf - 1,
        leaf,
        branch - 1,
        branch,
        branch + 1,
        2 * branch + leaf - 1,
    ];
    for block in places {
        image.write(block, block + 1);
    }
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    let before = image.clone();
    let changed = [2, 64, leaf, branch + 1];
    for block in changed {
        image.write(block, 1000 + block);
    }
    image.blocks.remove(&(branch - 1));
    let changes = image.changes(changed.into_iter().chain([branch - 1, branch - 2]));
    let second = backup(&mut vault, &image, Some(first), changes).unwrap();
    check(&vault, first, &before);
    check(&vault, second, &image);
    let again = vault.again(store).unwrap();
    check(&again, first, &before);
    check(&again, second, &image);
    assert!(verify(&again, Scope::Whole).unwrap().is_clean());
    assert_eq!(again.state().points()[&second].volumes[0].parent, Some(first));
}

#[test]
fn what_is_equal_is_put_once_and_what_is_zeros_not_at_all() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 30);
    for number in 0..64 {
        image.write(number, number + 1);
        image.write(6400 + number, number + 1);
    }
    let mut session = vault.begin("one").unwrap();
    publish(&mut session, &image, None, image.all()).unwrap();
    let sent = session.sent();
    // One piece of data of 256 KiB, a leaf, a branch.
    assert_eq!((sent.pieces, sent.found), (3, 1));
    session.end().unwrap();
    let mut session = vault.begin("two").unwrap();
    publish(&mut session, &image, None, image.all()).unwrap();
    assert_eq!(session.sent().pieces, 0);
    // Zeros that are sent as bytes.
    let zeros = Change::Bytes {
        offset: 1 << 20,
        bytes: vec![0; 1 << 20],
    };
    let point = publish(&mut session, &Image::new(1 << 30), None, vec![zeros]).unwrap();
    assert_eq!(session.sent().pieces, 0);
    session.end().unwrap();
    check(&vault, point, &Image::new(1 << 30));
}

#[test]
fn a_small_change_costs_what_it_is() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    vault.options.pack_bytes = 1 << 20;
    let mut image = Image::new(64 << 20);
    // 32 MiB of what does not compress much.
    for number in 0..8192 {
        image.write(number, number + 1);
    }
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    let before = store.bytes();
    // One block of a hundred, each somewhere else.
    let changed: Vec<u64> = (0..82).map(|at| at * 100 + 7).collect();
    for block in &changed {
        image.write(*block, 100_000 + block);
    }
    let second = backup(&mut vault, &image, Some(first), image.changes(changed)).unwrap();
    let grown = store.bytes() - before;
    // Half of each block compresses: 82 times about 2.2 KiB, 8 KiB of a leaf and directory.
    assert!(grown * 1000 < before * 17, "{grown} of {before}");
    check(&vault, second, &image);
}

#[test]
fn any_range_is_read_without_the_rest() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(LEAF_BYTES + (1 << 20));
    let leaf = LEAF_BYTES / BLOCK;
    for number in (0..200).chain(leaf - 3..leaf + 3) {
        if number % 7 != 0 {
            image.write(number, number + 5);
        }
    }
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    for block in [3, 100, leaf] {
        image.write(block, 9000 + block);
    }
    let point = backup(&mut vault, &image, Some(first), image.changes([3, 100, leaf])).unwrap();
    let whole = |at: u64, length: u64| -> Vec<u8> {
        let blocks = at / BLOCK..(at + length).div_ceil(BLOCK);
        let bytes = blocks.flat_map(|number| match image.blocks.get(&number) {
            Some(seed) => block(*seed),
            None => vec![0; BLOCK_BYTES],
        });
        bytes.skip((at % BLOCK) as usize).take(length as usize).collect()
    };
    let session = vault.begin("a restore").unwrap();
    let mut reader = session.reader(point, 0).unwrap();
    let mut random = Random::new(1);
    for turn in 0..300 {
        let near_border = turn % 3 == 0;
        let from = if near_border { LEAF_BYTES - 20_000 } else { 0 };
        let (at, length) = (
            from + random.below(if near_border { 30_000 } else { 900_000 }),
            random.below(70_000),
        );
        let mut buffer = vec![0xee; length as usize];
        reader.read(at, &mut buffer).unwrap();
        assert!(buffer == whole(at, length), "{length} bytes at {at}");
    }
    let end = image.bytes;
    assert!(reader.read(end, &mut []).is_ok());
    assert!(matches!(reader.read(end, &mut [0]), Err(Error::Range { .. })));
    assert!(matches!(reader.read(u64::MAX, &mut [0]), Err(Error::Range { .. })));
    session.end().unwrap();
}

#[test]
fn a_volume_that_became_smaller_does_not_grow_back_into_what_it_was() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(3 * BRANCH_BYTES);
    let branch = BRANCH_BYTES / BLOCK;
    for number in [5, 6, 70, branch - 1, branch + 3, 2 * branch + 1] {
        image.write(number, number + 1);
    }
    let mut parent = backup(&mut vault, &image, None, image.all()).unwrap();
    for bytes in [BRANCH_BYTES + 8 * BLOCK, 6 * BLOCK, 0, 3 * BRANCH_BYTES] {
        image.resize(bytes);
        parent = backup(&mut vault, &image, Some(parent), Vec::new()).unwrap();
        check(&vault, parent, &image);
    }
    assert!(image.blocks.is_empty());
}

#[test]
fn a_set_is_one_point_and_volumes_are_found_by_their_identity() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut images = [Image::new(1 << 20), Image::new(2 << 20)];
    images[0].write(1, 11);
    images[1].write(1, 12);
    let mut session = vault.begin("a set").unwrap();
    let made: Vec<VolumePoint> = [0_u8, 1]
        .map(|at| {
            let image = &images[usize::from(at)];
            session
                .backup(&volume(at, image, None), &mut stream(image.all()))
                .unwrap()
        })
        .into();
    let point = session.publish("a set", -1, made).unwrap();
    // In the other order, renamed, from that point on.
    images[0].write(2, 13);
    let mut second = volume(1, &images[1], Some(point));
    second.identity.name = "another name".to_owned();
    let second = session.backup(&second, &mut stream(Vec::new())).unwrap();
    let first = volume(0, &images[0], Some(point));
    let first = session.backup(&first, &mut stream(images[0].changes([2]))).unwrap();
    let third = volume(9, &images[0], Some(point));
    let none = session.backup(&third, &mut stream(Vec::new()));
    assert!(matches!(none, Err(Error::NoVolume { .. })));
    let later = session.publish("later", 0, vec![second, first]).unwrap();
    session.end().unwrap();
    for (at, image) in [(0, &images[1]), (1, &images[0])] {
        let mut reader = vault.reader(later, at).unwrap();
        let mut restored = Restored::default();
        reader.restore(0, image.bytes, &mut restored).unwrap();
        assert_eq!(restored.blocks.len(), image.blocks.len());
        assert!(
            image
                .blocks
                .iter()
                .all(|(number, seed)| restored.blocks[number] == block(*seed))
        );
    }
    assert_eq!(vault.state().points()[&point].time, -1);
    assert!(matches!(vault.reader(later, 2), Err(Error::NoVolume { .. })));
    assert!(matches!(vault.reader(later + 1, 0), Err(Error::NoPoint(_))));
}

/// All of the volume, though nobody knows what changed.
fn compared(vault: &mut Vault, image: &Image, parent: u64) -> (u64, crate::Sent) {
    let mut session = vault.begin("compared").unwrap();
    let whole = Volume {
        compares: true,
        ..volume(1, image, Some(parent))
    };
    let all = image.changes(0..image.bytes / BLOCK);
    let made = session.backup(&whole, &mut stream(all)).unwrap();
    let point = session.publish("point", 0, vec![made]).unwrap();
    let sent = session.sent();
    session.end().unwrap();
    (point, sent)
}

#[test]
fn a_volume_is_compared_with_a_point_by_the_names_of_pieces() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(LEAF_BYTES + (1 << 20));
    for number in 0..256 {
        image.write(number, number + 1);
    }
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    image.write(10, 1010);
    let second = backup(&mut vault, &image, Some(first), image.changes([10])).unwrap();
    // One that is in a whole piece, one where nothing was, and a hole.
    image.write(200, 1200);
    image.write(1000, 2000);
    image.blocks.remove(&130);
    let (third, sent) = compared(&mut vault, &image, second);
    check(&vault, third, &image);
    // Before and behind block 10 the pieces are used in part; what the hole leaves of its window; the window of 200; block 1000; a leaf and a branch.
    assert_eq!(sent.pieces, 8);
    let tree = sent.raw_bytes - (10 + 53 + 2 + 61 + 64 + 1) * BLOCK;
    assert!(tree < 1000, "{tree}");
    let (again, sent) = compared(&mut vault, &image, third);
    assert_eq!(sent.pieces, 0);
    check(&vault, again, &image);
    // What was lost is put once more, though nothing changed.
    let of_data = |pack: &crate::pack::Pack| {
        pack.directory
            .records
            .iter()
            .all(|record| record.class == crate::Class::Data)
    };
    let packs = vault
        .state
        .packs
        .iter()
        .filter(|(name, pack)| name.session.0 < first && of_data(pack));
    let packs: Vec<_> = packs.map(|(name, _)| *name).collect();
    assert!(!packs.is_empty());
    vault.give_up(&packs).unwrap();
    for pack in &packs {
        store.delete(&vault.id().pack(*pack)).unwrap();
    }
    let (whole, sent) = compared(&mut vault, &image, again);
    assert!(sent.pieces > 0);
    check(&vault, whole, &image);
    let report = verify(&vault, Scope::Whole).unwrap();
    assert!(
        report.points_lost.contains_key(&first) && !report.points_lost.contains_key(&whole),
        "{report:?}"
    );
    let mut reader = vault.reader(whole, 0).unwrap();
    assert_eq!(reader.data_bytes().unwrap(), 256 * BLOCK);
}

#[test]
fn a_long_backup_says_that_it_goes_on() {
    struct Slow(u32);
    impl crate::Source for Slow {
        fn next(&mut self) -> io::Result<Option<Change>> {
            self.0 += 1;
            let nothing = Change::Zeros { offset: 0, length: 0 };
            Ok((self.0 < 10).then_some(nothing))
        }
        fn wants_sign(&mut self) -> bool {
            self.0 % 3 == 2
        }
    }
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut session = vault.begin("slow").unwrap();
    let id = session.id();
    let made = session.backup(&volume(1, &Image::new(1 << 20), None), &mut Slow(0));
    made.unwrap();
    assert_eq!(session.vault().state().sessions()[&id].last, id.0 + 3);
    session.end().unwrap();
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let image = Image::new(1 << 20);
    let zeros = |offset, length| Change::Zeros { offset, length };
    let mut session = vault.begin("bad").unwrap();
    for changes in [
        vec![zeros(1, BLOCK)],
        vec![zeros(0, 100)],
        vec![zeros(0, 2 << 20)],
        vec![zeros(1 << 21, 0)],
        vec![zeros(0, u64::MAX - 4095)],
        vec![zeros(BLOCK, BLOCK), zeros(0, BLOCK)],
        vec![zeros(0, 2 * BLOCK), zeros(BLOCK, BLOCK)],
    ] {
        let made = session.backup(&volume(1, &image, None), &mut stream(changes.clone()));
        assert!(matches!(made, Err(Error::Range { .. })), "{changes:?}");
    }
    for bytes in [100, crate::MAX_VOLUME_BYTES + BLOCK] {
        let made = session.backup(&volume(1, &Image::new(bytes), None), &mut stream(Vec::new()));
        assert!(matches!(made, Err(Error::Range { .. })), "{bytes}");
    }
    let gone = session.backup(&volume(1, &image, Some(99)), &mut stream(Vec::new()));
    assert!(matches!(gone, Err(Error::NoPoint(99))));
    let broken = [Ok(zeros(0, BLOCK)), Err(io::Error::other("the disk is away"))];
    let made = session.backup(&volume(1, &image, None), &mut broken.into_iter());
    assert!(matches!(made, Err(Error::Source(_))));
    session.end().unwrap();
    assert!(vault.state().points().is_empty());
}

#[test]
fn a_hundred_points_are_pruned_to_ten_and_each_comes_back() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut random = Random::new(19);
    let mut image = Image::new(LEAF_BYTES + (4 << 20));
    let blocks = image.bytes / BLOCK;
    for number in 0..300 {
        image.write(number, number + 1);
    }
    let mut points = vec![(backup(&mut vault, &image, None, image.all()).unwrap(), image.clone())];
    for turn in 0..99_u64 {
        let mut changed = Vec::new();
        for _ in 0..random.within(1, 12) {
            let at = if random.percent(90) {
                random.below(40)
            } else {
                random.below(blocks)
            };
            for number in at..(at + random.within(1, 5)).min(blocks) {
                if random.percent(10) {
                    image.blocks.remove(&number);
                } else {
                    image.write(number, 1000 * (turn + 1) + number);
                }
                changed.push(number);
            }
        }
        let parent = points.last().map(|(point, _)| *point);
        points.push((
            backup(&mut vault, &image, parent, image.changes(changed)).unwrap(),
            image.clone(),
        ));
    }
    let full = vault.state().packs().1;
    let (kept, gone): (Vec<_>, Vec<_>) = (0..100).partition(|at| at % 10 == 9);
    let gone: Vec<u64> = gone.into_iter().map(|at| points[at].0).collect();
    vault.forget(&gone).unwrap();
    let pruned = prune::run(&mut vault).unwrap();
    assert!(
        pruned.waiting.is_empty() && pruned.swept.swept > 20 && pruned.rewritten > 1,
        "{pruned:?}"
    );
    assert_eq!(pruned.collected.deleted, pruned.swept.swept);
    let packs: usize = store.names("packs/").len();
    assert_eq!(packs, vault.state().packs().0);
    let again = vault.again(store.clone()).unwrap();
    assert_eq!(again.state(), vault.state(), "a checkpoint says what the journal says");
    for at in kept {
        check(&again, points[at].0, &points[at].1);
    }
    let report = verify(&again, Scope::Whole).unwrap();
    assert!(report.is_clean() && report.points == 10, "{report:?}");
    // At least half of what is left is needed.
    let mut walk = crate::walk::Walk::default();
    walk.all(&again).unwrap();
    let place = |id: &crate::PieceId| again.state().places(id)[0];
    let stored = |id| {
        let place = place(id);
        u64::from(again.state().packs[&place.pack].directory.records[place.slot as usize].stored)
    };
    let (live, left) = (walk.live.iter().map(stored).sum::<u64>(), again.state().packs().1);
    assert!(left <= 2 * live + 40_000, "{left} for {live}");
    assert!(left < full, "{left} of {full}");
    assert!(matches!(vault.forget(&gone), Err(Error::Refused(Refusal::NoPoint(_)))));
}

#[test]
fn two_writers_and_a_reader_do_not_disturb_one_another() {
    let store = Arc::new(Memory::default());
    let mut one = new_vault(&store);
    let mut two = one.again(store.clone()).unwrap();
    let mut images = [Image::new(8 << 20), Image::new(8 << 20)];
    let mut points: Vec<(u64, usize, Image)> = Vec::new();
    {
        let mut sessions = [one.begin("one").unwrap(), two.begin("two").unwrap()];
        for turn in 0..20_u64 {
            for (at, session) in sessions.iter_mut().enumerate() {
                // Half of what they write is the same.
                for number in 0..10 {
                    let seed = if number % 2 == 0 {
                        77 + turn
                    } else {
                        1000 * (at as u64 + 1) + turn
                    };
                    images[at].write(turn * 7 + number, seed + number * 100);
                }
                let parent = points
                    .iter()
                    .rev()
                    .find(|(_, by, _)| *by == at)
                    .map(|(point, _, _)| *point);
                let changes = images[at].changes(turn * 7..turn * 7 + 10);
                let point = publish(session, &images[at], parent, changes).unwrap();
                points.push((point, at, images[at].clone()));
            }
        }
        for session in sessions {
            session.end().unwrap();
        }
    }
    one.refresh().unwrap();
    two.refresh().unwrap();
    assert_eq!(one.state(), two.state());
    for (point, _, image) in &points {
        check(&one, *point, image);
    }
    // A reader that began before a point was forgotten reads it to its end.
    let (gone, _, image) = points[5].clone();
    let reading = two.begin("a restore").unwrap();
    one.forget(&[gone]).unwrap();
    let pruned = prune::run(&mut one).unwrap();
    let kept_back = pruned.condemned == 0 || pruned.waiting == [reading.id()];
    assert!(kept_back && pruned.swept.swept == 0, "{pruned:?}");
    let mut restored = Restored::default();
    reading
        .reader(gone, 0)
        .unwrap()
        .restore(0, image.bytes, &mut restored)
        .unwrap();
    assert_eq!(restored.blocks.len(), image.blocks.len());
    reading.end().unwrap();
    assert!(prune::run(&mut one).unwrap().waiting.is_empty());
}

#[test]
fn an_unfinished_backup_is_found_again() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(16 << 20);
    for number in 0..2000 {
        image.write(number, number + 1);
    }
    let all = image.all();
    let mut session = vault.begin("dies").unwrap();
    let dead = session.id();
    let mut broken = all.clone().into_iter().map(Ok).chain([Err(io::Error::other("killed"))]);
    assert!(session.backup(&volume(1, &image, None), &mut broken).is_err());
    let sent = session.sent();
    drop(session);
    let mut vault = vault.again(store.clone()).unwrap();
    let mut session = vault.begin("goes on").unwrap();
    publish(&mut session, &image, None, all).unwrap();
    let rest = session.sent();
    // All but what was in packs that the journal did not have yet.
    assert!(
        rest.found + 3 >= sent.pieces && rest.raw_bytes < 700_000,
        "{sent:?} {rest:?}"
    );
    session.end().unwrap();
    // The dead one holds sweeps up until it is fenced; then what it left is collected.
    let point = *vault.state().points().keys().next().unwrap();
    vault.forget(&[point]).unwrap();
    let pruned = prune::run(&mut vault).unwrap();
    assert!(
        pruned.condemned > 0 && pruned.waiting == [dead] && pruned.swept.swept == 0,
        "{pruned:?}"
    );
    vault.fence(dead).unwrap();
    prune::run(&mut vault).unwrap();
    prune::run(&mut vault).unwrap();
    assert_eq!(vault.state().packs().0, 0);
    assert!(store.names("packs/").is_empty());
}

#[test]
fn locked_objects_stay_and_go_when_the_lock_is_over() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    vault.options.retain = Some(Retention(1000));
    let mut image = Image::new(1 << 20);
    image.write(0, 1);
    let point = backup(&mut vault, &image, None, image.all()).unwrap();
    image.write(1, 2);
    let kept = backup(&mut vault, &image, Some(point), image.changes([1])).unwrap();
    // Longer, for what the points need.
    vault.retain(Retention(5000), &|| false).unwrap();
    let locks: Vec<u64> = store.with(|objects| objects.values().map(|(_, until)| until.0).collect());
    assert!(locks.iter().all(|until| *until == 5000), "{locks:?}");
    vault.forget(&[point]).unwrap();
    let pruned = prune::run(&mut vault).unwrap();
    assert!(pruned.swept.swept > 0);
    assert_eq!(
        (pruned.collected.locked.len(), pruned.collected.deleted),
        (pruned.swept.swept, 0)
    );
    *store.now.lock().unwrap() = 6000;
    let pruned = prune::run(&mut vault).unwrap();
    assert!(
        pruned.collected.deleted > 0 && pruned.collected.locked.is_empty(),
        "{pruned:?}"
    );
    check(&vault, kept, &image);
}

#[test]
fn vaults_of_one_repository_know_nothing_of_each_other() {
    let store = Arc::new(Memory::default());
    let mut one = new_vault(&store);
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let mut two = Vault::create(dynamic.clone(), b"of another cluster", CHEAP, options()).unwrap();
    let mut image = Image::new(1 << 20);
    for number in 0..64 {
        image.write(number, number + 1);
    }
    let points = [
        backup(&mut one, &image, None, image.all()).unwrap(),
        backup(&mut two, &image, None, image.all()).unwrap(),
    ];
    let names = |vault: &Vault| {
        vault
            .state()
            .index
            .keys()
            .copied()
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(names(&one).is_disjoint(&names(&two)), "equal data has other names");
    let plain = block(1);
    let shows = |bytes: &[u8]| {
        bytes
            .windows(16)
            .any(|piece| piece == &plain[..16] || piece.starts_with(b"disk1"))
    };
    store.with(|objects| assert!(!objects.values().any(|(bytes, _)| shows(bytes)), "nothing lies open"));
    assert_eq!(Vault::all(&*store).unwrap(), [one.id(), two.id()].into());
    // Each is pruned by itself.
    one.forget(&points[..1]).unwrap();
    prune::run(&mut one).unwrap();
    assert!(store.names(&one.id().packs()).is_empty());
    check(&two, points[1], &image);
    let open = |id, passphrase: &[u8]| Vault::open(dynamic.clone(), id, passphrase, options()).map(drop);
    assert!(open(one.id(), PASSPHRASE).is_ok() && open(two.id(), b"of another cluster").is_ok());
    assert!(matches!(
        open(two.id(), PASSPHRASE),
        Err(Error::Passphrase { slots: 1, .. })
    ));
    assert!(matches!(
        open(crate::VaultId([1; 16]), PASSPHRASE),
        Err(Error::NoVault { .. })
    ));
}

#[test]
fn passphrases_come_and_go_but_for_the_last() {
    let store = Arc::new(Memory::default());
    let vault = new_vault(&store);
    let dynamic = store.clone() as Arc<dyn ObjectStore>;
    let open = |passphrase: &[u8]| Vault::open(dynamic.clone(), vault.id(), passphrase, options()).map(drop);
    assert!(matches!(
        vault.remove_passphrase(PASSPHRASE),
        Err(Error::LastKey { .. })
    ));
    vault.add_passphrase(b"a second one", CHEAP).unwrap();
    open(PASSPHRASE).unwrap();
    open(b"a second one").unwrap();
    assert_eq!(vault.remove_passphrase(PASSPHRASE).unwrap(), 1);
    let other = open(PASSPHRASE).unwrap_err();
    assert!(
        other
            .to_string()
            .contains("the passphrase in the key file opens none of the 1"),
        "{other}"
    );
    let drawn = format!("{}{}", crate::DRAWN, "5a".repeat(32));
    let other = open(drawn.as_bytes()).unwrap_err();
    assert!(other.to_string().contains("the key in the key file"), "{other}");
    open(b"a second one").unwrap();
    for number in 1..16_u8 {
        vault.add_passphrase(&[number; 3], CHEAP).unwrap();
    }
    assert!(matches!(
        vault.add_passphrase(b"too many", CHEAP),
        Err(Error::Limit { most: 16, .. })
    ));
}
