//! A store in memory for tests, and one before it that fails.

use super::{Listed, ObjectStore, Put, Retention, StoreError};
use amita_testkit::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Objects = BTreeMap<String, (Vec<u8>, Retention)>;

/// Keeps the contract.
#[derive(Default)]
pub(crate) struct Memory {
    objects: Mutex<Objects>,
    /// The store's own clock.
    pub now: Mutex<u64>,
}

impl Memory {
    pub fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        work(&mut self.objects.lock().unwrap())
    }

    pub fn names(&self, prefix: &str) -> Vec<String> {
        self.with(|objects| {
            objects
                .keys()
                .filter(|name| name.starts_with(prefix))
                .cloned()
                .collect()
        })
    }

    pub fn bytes(&self) -> usize {
        self.with(|objects| objects.values().map(|(bytes, _)| bytes.len()).sum())
    }

    /// A copy, as it is now.
    pub fn copy(&self) -> Arc<Memory> {
        let copy = Memory::default();
        copy.with(|objects| *objects = self.with(|objects| objects.clone()));
        Arc::new(copy)
    }
}

impl ObjectStore for Memory {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        self.with(|objects| {
            if objects.contains_key(name) {
                return Ok(Put::Exists);
            }
            objects.insert(name.to_owned(), (bytes.to_vec(), retain.unwrap_or(Retention(0))));
            Ok(Put::New)
        })
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.with(|objects| objects.get(name).map(|(bytes, _)| bytes.clone())))
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let cut = |bytes: &Vec<u8>| {
            let from = (offset as usize).min(bytes.len());
            bytes[from..(from + length).min(bytes.len())].to_vec()
        };
        Ok(self.with(|objects| objects.get(name).map(|(bytes, _)| cut(bytes))))
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        let wanted = |name: &str| name.starts_with(prefix) && name > after;
        Ok(self.with(|objects| {
            let found = objects.iter().filter(|(name, _)| wanted(name)).take(most);
            found
                .map(|(name, (bytes, _))| Listed {
                    name: name.clone(),
                    bytes: bytes.len() as u64,
                })
                .collect()
        }))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let now = *self.now.lock().unwrap();
        self.with(|objects| match objects.get(name) {
            Some((_, until)) if until.0 > now => Err(StoreError::Locked { until: *until }),
            _ => {
                objects.remove(name);
                Ok(())
            }
        })
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        self.with(|objects| match objects.get_mut(name) {
            Some((_, held)) => {
                *held = (*held).max(until);
                Ok(())
            }
            None => Err(StoreError::Refused("there is no such object".to_owned())),
        })
    }
}

/// What fails, in percent of calls.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// A put that is not done and not answered.
    pub lost: u64,
    /// A put that is not answered, and done later.
    pub late: u64,
    /// A put that is done twice, of which the second is answered.
    pub repeated: u64,
    /// A read that is not answered.
    pub unread: u64,
    /// A list of some time ago.
    pub stale: u64,
    /// From this call on nothing is done any more...
    pub crash_at: Option<usize>,
    /// ... but that one is done, and not answered.
    pub crash_after: bool,
    /// From this put on there is no room.
    pub full_at: Option<usize>,
    /// This put leaves half of the object, which no store of the contract does.
    pub torn_at: Option<usize>,
}

pub(crate) struct Faulty {
    pub under: Arc<Memory>,
    faults: Faults,
    inner: Mutex<Inner>,
}

struct Inner {
    random: Random,
    calls: usize,
    puts: usize,
    late: Vec<(String, Vec<u8>)>,
    before: Vec<Listed>,
}

const CRASHED: &str = "crashed";

impl Faulty {
    pub fn new(under: Arc<Memory>, faults: Faults, seed: u64) -> Arc<Faulty> {
        Arc::new(Faulty {
            under,
            faults,
            inner: Mutex::new(Inner {
                random: Random::new(seed),
                calls: 0,
                puts: 0,
                late: Vec::new(),
                before: Vec::new(),
            }),
        })
    }

    pub fn calls(&self) -> usize {
        self.inner.lock().unwrap().calls
    }

    pub fn puts(&self) -> usize {
        self.inner.lock().unwrap().puts
    }

    /// What was late arrives, all of it.
    pub fn settle(&self) {
        let late = std::mem::take(&mut self.inner.lock().unwrap().late);
        for (name, bytes) in late {
            self.under.put(&name, &bytes, None).unwrap();
        }
    }

    /// Counts a call; is it the one at which the process ends, and is it done nevertheless?
    fn call(&self) -> Result<bool, StoreError> {
        let mut inner = self.inner.lock().unwrap();
        let at = inner.calls;
        inner.calls += 1;
        let some_arrive = !inner.late.is_empty() && inner.random.percent(30);
        if some_arrive {
            let (name, bytes) = inner.late.remove(0);
            self.under.put(&name, &bytes, None).unwrap();
        }
        if inner.random.percent(20) {
            inner.before = self.under.list("", "", usize::MAX)?;
        }
        match self.faults.crash_at {
            Some(crash) if at == crash && self.faults.crash_after => Ok(true),
            Some(crash) if at >= crash => Err(StoreError::Refused(CRASHED.to_owned())),
            _ => Ok(false),
        }
    }

    fn happens(&self, percent: u64) -> bool {
        percent > 0 && self.inner.lock().unwrap().random.percent(percent)
    }

    fn answer<T>(crash: bool, answer: T) -> Result<T, StoreError> {
        if crash {
            return Err(StoreError::Refused(CRASHED.to_owned()));
        }
        Ok(answer)
    }

    fn unread(&self) -> Result<(), StoreError> {
        if self.happens(self.faults.unread) {
            return Err(StoreError::Unknown("no answer".to_owned()));
        }
        Ok(())
    }
}

impl ObjectStore for Faulty {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        let crash = self.call()?;
        let unknown = || StoreError::Unknown("no answer".to_owned());
        let put = {
            let mut inner = self.inner.lock().unwrap();
            inner.puts += 1;
            inner.puts - 1
        };
        if self.faults.full_at.is_some_and(|full| put >= full) {
            return Err(StoreError::Full);
        }
        if self.faults.torn_at == Some(put) {
            self.under.put(name, &bytes[..bytes.len() / 2], retain)?;
            return Err(unknown());
        }
        if self.happens(self.faults.lost) {
            return Err(unknown());
        }
        if self.happens(self.faults.late) {
            self.inner.lock().unwrap().late.push((name.to_owned(), bytes.to_vec()));
            return Err(unknown());
        }
        if self.happens(self.faults.repeated) {
            self.under.put(name, bytes, retain)?;
        }
        let put = self.under.put(name, bytes, retain)?;
        Faulty::answer(crash, put)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let crash = self.call()?;
        self.unread()?;
        Faulty::answer(crash, self.under.get(name)?)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let crash = self.call()?;
        self.unread()?;
        Faulty::answer(crash, self.under.get_range(name, offset, length)?)
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        let crash = self.call()?;
        if self.happens(self.faults.stale) {
            let inner = self.inner.lock().unwrap();
            let old = inner.before.iter().filter(|listed| listed.name.starts_with(prefix));
            let old = old.filter(|listed| listed.name.as_str() > after).take(most).cloned();
            return Faulty::answer(crash, old.collect());
        }
        Faulty::answer(crash, self.under.list(prefix, after, most)?)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let crash = self.call()?;
        self.under.delete(name)?;
        Faulty::answer(crash, ())
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        let crash = self.call()?;
        self.under.retain(name, until)?;
        Faulty::answer(crash, ())
    }
}
