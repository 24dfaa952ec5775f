//! Devices that fail, stores that are written while they are looked at, and a large one.

use super::*;

/// A device with a bad place.
struct Broken<'a>(&'a [u8], u64);

impl ReadAt for Broken<'_> {
    fn size_bytes(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if (offset..offset + buffer.len() as u64).contains(&self.1) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.0.read_at(offset, buffer)
    }
}

#[test]
fn what_the_device_cannot_read() {
    let mut planter = Planter::new(&base());
    let image = planter.image.clone();
    let block = planter.entries(SECOND, None)[3].slot;
    let leaf = planter.leaf(SECOND, None);
    let look = |offset| {
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        check(&Broken(&image, offset), &Config::default(), &options, &mut |_| {})
    };
    let report = look(OFFSETS[1]);
    let fault = Fault::Unreadable;
    let offset = OFFSETS[1];
    assert_eq!(report.problems, [Problem::Superblock { offset, fault }]);

    let report = look(planter.slot_at(block) as u64);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(matches!(&report.problems[0], Problem::Data { slot, fault: DataFault::Device(_), .. } if *slot == block));

    let report = look(planter.slot_at(leaf) as u64);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(
        matches!(&report.problems[0], Problem::Leaf { slot: Some(slot), fault: LeafFault::Device(_), .. } if *slot == leaf)
    );
}

/// A store that somebody writes meanwhile: after so many reads of its front it is another one.
struct Moving<'a> {
    images: [&'a [u8]; 2],
    left: Cell<u32>,
}

impl ReadAt for Moving<'_> {
    fn size_bytes(&self) -> io::Result<u64> {
        self.images[0].size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset == 0 {
            self.left.set(self.left.get().saturating_sub(1));
        }
        self.images[usize::from(self.left.get() == 0)].read_at(offset, buffer)
    }
}

#[test]
fn a_store_that_is_written_meanwhile_is_looked_at_again() {
    let sound = base();
    let mut planter = Planter::new(&sound);
    planter.edit(SECOND, None, |entries| entries[1].version = version(1, 9));
    planter.superblock.generation -= 2;
    let older = planter.finish();
    let moving = Moving {
        images: [&older, &sound],
        // Twice to mount it, then it is looked at again.
        left: Cell::new(3),
    };
    let options = CheckOptions::default();
    let report = check(&moving, &Config::default(), &options, &mut |_| {});
    assert_eq!(report.problems, []);
    assert_eq!(report.remarks, [Problem::Changed { attempts: 2, gone: 1 }]);
    // One that is not written has what it has.
    let report = check(&&older[..], &Config::default(), &options, &mut |_| {});
    assert_eq!((report.problems.len(), report.remarks.len()), (1, 0));
}

/// A store whose log grows while it is read: with each read of the log it is some steps further.
struct Growing<'a> {
    steps: &'a [Vec<u8>],
    log: std::ops::Range<u64>,
    at: Cell<usize>,
}

impl ReadAt for Growing<'_> {
    fn size_bytes(&self) -> io::Result<u64> {
        self.steps[0][..].size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = self.at.get();
        if self.log.contains(&offset) {
            self.at.set((at + 6).min(self.steps.len() - 1));
        }
        self.steps[at][..].read_at(offset, buffer)
    }
}

#[test]
fn a_log_that_grows_while_it_is_read_lacks_nothing() {
    let mut base = Base {
        rig: Rig::fresh(1 << 20, true),
        asker: Requester::new(1),
    };
    base.asker.fence(&mut base.rig).expect("it is the first");
    let mut steps = Vec::new();
    for counter in 1..60 {
        base.write(0, (counter % 8) as u16, 0, counter);
        steps.push(base.rig.disk.view.clone());
    }
    let geometry = Geometry::divide(1 << 20, None).expect("possible");
    let log = geometry.log_offset..geometry.checkpoint_offsets[0];
    let mut refused = 0;
    for from in 0..20 {
        let mut growing = Growing {
            steps: &steps[from..],
            log: log.clone(),
            at: Cell::new(0),
        };
        // Read from its front on, the log lacks pages that later ones say were durable.
        let file = amita_reactor::FileInfo {
            size_bytes: 1 << 20,
            alignment: 1,
            volatile_cache: false,
            inline: true,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        let mut store = amita_store::Store::open(Config::default(), file, Pool::heap());
        mount_over(&mut store, &growing);
        refused += usize::from(matches!(store.state(), State::Refused(MountError::LogDamaged { .. })));
        growing.at = Cell::new(0);
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        let report = check(&growing, &Config::default(), &options, &mut |_| {});
        assert_eq!(report.problems, [], "from step {from}");
        assert!(report.mount.is_some());
    }
    assert!(refused >= 10, "{refused} times it would have been called damaged");
}

/// Mounts a store over a reader, as it reads; what it writes is lost.
fn mount_over(store: &mut amita_store::Store, reader: &impl ReadAt) {
    loop {
        let effects: Vec<_> = store.effects().collect();
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            match effect {
                amita_store::Effect::Read { io, offset, mut buffer } => {
                    let result = reader.read_at(offset, &mut buffer);
                    store.read_done(Time(1), io, buffer, result);
                }
                amita_store::Effect::Write { io, data, .. } => store.write_done(Time(1), io, data, Ok(())),
                other => panic!("a mount wants {other:?}"),
            }
        }
    }
}

/// A file that is mostly holes.
struct Sparse {
    size_bytes: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl ReadAt for Sparse {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.size_bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        for (&at, page) in self.pages.range(offset..end) {
            let start = (at - offset) as usize;
            buffer[start..start + page.len()].copy_from_slice(page);
        }
        Ok(())
    }
}

#[test]
fn a_store_of_one_tebibyte() {
    let size_bytes = 1 << 40;
    let format = amita_store::format(&params(size_bytes)).expect("the size is possible");
    let page = format.superblock().encode();
    let pages = OFFSETS.map(|offset| (offset, page.clone()));
    let sparse = Sparse {
        size_bytes,
        pages: BTreeMap::from(pages),
    };
    let offline = Offline::open(&sparse, Config::default()).expect("it is mounted");
    let slots = u64::from(Geometry::divide(size_bytes, None).expect("possible").slots);
    assert_eq!(offline.counts().free, slots);
    // One bit a slot for the map, a little more for what is free.
    assert!(offline.status().index_bytes < slots / 8 * 9 / 4);
    let report = check(&sparse, &Config::default(), &CheckOptions::default(), &mut |_| {});
    assert_eq!((report.problems, report.remarks), (vec![], vec![]));
}
