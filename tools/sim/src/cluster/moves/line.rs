//! A mover is written as the product's is: line after line, and what it asks for it waits for. So it has a thread of its own, which runs only
//! while the simulation stands still: it asks for one thing, and goes on when the virtual world has an answer. Nothing of it runs beside
//! anything else, and a run is made from its seed alone.

use crate::cluster::mirrors::wire::{Did, FarAnswer, FarAsk, FarWhy};
use amita_metadata::{Call, Error, Reply, Transact};
use amita_types::io::{ChangedChunks, ChangedSearch, Differs};
use amita_types::{BLOCK_BYTES, SnapshotId};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a mover has open at its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cluster) enum End {
    Source,
    Target,
    /// One of several.
    Nth(usize),
}

/// A piece of I/O.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum Piece {
    Read { offset: u64, length: u32 },
    Write { offset: u64, data: Vec<u8> },
    Clear { offset: u64, length: u64 },
    Allocation { offset: u64 },
    Differ { offset: u64, since: SnapshotId },
    ChangedChunks { offset: u64, since: SnapshotId },
}

/// What a piece brings back.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum Brought {
    Nothing,
    Bytes(Vec<u8>),
    /// What is told of which blocks have data, too.
    Differs(Box<Differs>),
}

/// What is open.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct Opened {
    pub size_bytes: u64,
    pub chunk_bytes: u64,
    /// What it is compared with.
    pub since: Option<SnapshotId>,
}

/// What a mover wants.
#[derive(Debug)]
pub(in crate::cluster) enum Ask {
    Txn(Box<Call>),
    Rest(Duration),
    /// A volume, or a snapshot; and the snapshot that it is to be compared with.
    Open(End, String, Option<String>),
    Io(End, Vec<Piece>),
    Close(End),
    /// It tells something.
    Tell(String),
    /// A path was taken.
    Hit(&'static str),
    /// What the target holds is not known, or was never compared: its next pass writes all of it.
    WritesAll,
    /// The other cluster's end of a mirror is asked for this.
    Far(Box<FarAsk>),
    /// Something of a mirror was done, for who judges that.
    Did(Box<Did>),
    /// It has ended; why, where that is to be told.
    Ended(Option<String>),
}

/// What comes back.
#[derive(Debug)]
pub(in crate::cluster) enum Answer {
    Txn(Result<Reply, Error>),
    Rested,
    Opened(Result<Opened, String>),
    Io(Result<Vec<Brought>, String>),
    Far(Result<FarAnswer, FarWhy>),
}

/// The simulation's end.
pub(in crate::cluster) struct Handle {
    asks: Receiver<Ask>,
    answers: Option<Sender<(Duration, Answer)>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// A mover begins; what it asks for first is to be had by [`Handle::next`].
    pub fn start(now: Duration, run: impl FnOnce(&Line) + Send + 'static) -> Handle {
        let (ask, asks) = channel();
        let (answer, answers) = channel();
        let thread = std::thread::Builder::new().name("sim-mover".to_owned());
        let thread = thread.spawn(move || {
            let line = Line {
                ask,
                answers,
                now: Cell::new(now),
                is_cut: Cell::new(false),
            };
            run(&line);
        });
        Handle {
            asks,
            answers: Some(answer),
            thread: Some(thread.expect("the system gives a thread")),
        }
    }

    /// What it asks for next.
    ///
    /// # Errors
    /// It has panicked.
    pub fn next(&mut self) -> Result<Ask, String> {
        self.asks.recv().map_err(|_| "a mover has panicked".to_owned())
    }

    /// It goes on.
    pub fn answer(&self, now: Duration, answer: Answer) {
        if let Some(answers) = &self.answers {
            // One that has panicked is found by `next`.
            let _ = answers.send((now, answer));
        }
    }
}

impl Drop for Handle {
    /// Its process is gone: whatever it asks for comes to nothing.
    fn drop(&mut self) {
        self.answers = None;
        // It may still want to say something, which nobody hears.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The mover's end.
pub(in crate::cluster) struct Line {
    ask: Sender<Ask>,
    answers: Receiver<(Duration, Answer)>,
    now: Cell<Duration>,
    is_cut: Cell<bool>,
}

impl Line {
    /// The virtual time.
    pub fn now(&self) -> Duration {
        self.now.get()
    }

    /// Its process is gone.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Says something that has no answer.
    pub fn say(&self, what: Ask) {
        if !self.is_cut.get() {
            let _ = self.ask.send(what);
        }
    }

    /// None: its process is gone.
    fn wait(&self, what: Ask) -> Option<Answer> {
        if self.is_cut.get() || self.ask.send(what).is_err() {
            self.is_cut.set(true);
            return None;
        }
        match self.answers.recv() {
            Ok((now, answer)) => {
                self.now.set(now);
                Some(answer)
            }
            Err(_) => {
                self.is_cut.set(true);
                None
            }
        }
    }

    pub fn rest(&self, time: Duration) {
        self.wait(Ask::Rest(time));
    }

    pub fn open(&self, end: End, name: &str, since: Option<&str>) -> Result<Opened, String> {
        match self.wait(Ask::Open(end, name.to_owned(), since.map(str::to_owned))) {
            Some(Answer::Opened(result)) => result,
            _ => Err("its process is gone".to_owned()),
        }
    }

    pub fn io(&self, end: End, pieces: Vec<Piece>) -> Result<Vec<Brought>, String> {
        match self.wait(Ask::Io(end, pieces)) {
            Some(Answer::Io(result)) => result,
            _ => Err("its process is gone".to_owned()),
        }
    }

    /// What was changed of the source's chunk that holds the byte, or has data where it is not compared: what begins where, ends where, and has zeros.
    pub fn extents(&self, source: Opened, at: u64, until: u64) -> Result<Vec<(u64, u64, bool)>, String> {
        let offset = at - at % source.chunk_bytes;
        let piece = match source.since {
            Some(since) => Piece::Differ { offset, since },
            None => Piece::Allocation { offset },
        };
        let brought = self.io(End::Source, vec![piece])?;
        let Some(Brought::Differs(differs)) = brought.into_iter().next() else {
            return Err("nobody says what was changed, or has data".to_owned());
        };
        let block = u64::from(BLOCK_BYTES);
        let has = |words: &[u64; 16], index: u64| words[index as usize / 64] >> (index % 64) & 1 == 1;
        let mut extents: Vec<(u64, u64, bool)> = Vec::new();
        for index in 0..source.chunk_bytes / block {
            let from = offset + index * block;
            if from < at || from >= until || source.since.is_some() && !has(&differs.changed, index) {
                continue;
            }
            let is_zero = !has(&differs.allocated, index);
            match extents.last_mut() {
                Some((_, to, was_zero)) if *to == from && *was_zero == is_zero => *to += block,
                _ => extents.push((from, from + block, is_zero)),
            }
        }
        Ok(extents)
    }

    /// Which of the source's chunks may have been changed, as those say who sequence them.
    pub fn changed(&self, source: Opened, since: SnapshotId) -> ChangedSearch {
        let mut search = ChangedSearch::new(0, source.size_bytes.div_ceil(source.chunk_bytes));
        loop {
            let questions = search.questions();
            if questions.is_empty() {
                return search;
            }
            for chunk in questions {
                let offset = chunk * source.chunk_bytes;
                let told = self.io(End::Source, vec![Piece::ChangedChunks { offset, since }]);
                let told = match told.as_deref() {
                    Ok([Brought::Bytes(bytes)]) => ChangedChunks::read(bytes),
                    _ => None,
                };
                search.answered(chunk, told.as_ref());
            }
        }
    }
}

impl Line {
    /// Asks the other cluster's end of a mirror.
    ///
    /// # Errors
    /// It does not answer, or says no.
    pub fn far(&self, ask: FarAsk) -> Result<FarAnswer, FarWhy> {
        match self.wait(Ask::Far(Box::new(ask))) {
            Some(Answer::Far(result)) => result,
            _ => Err(FarWhy::Unheard("its process is gone".to_owned())),
        }
    }
}

impl Transact for Line {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        match self.wait(Ask::Txn(Box::new(call.clone()))) {
            Some(Answer::Txn(result)) => result,
            _ => Err(Error::Unavailable {
                what: "its process is gone".to_owned(),
                endpoints: "simulation".to_owned(),
            }),
        }
    }
}
