//! The thread of a client's core: it takes commands from the queues' rings, and puts what has ended into them.

use crate::config::Config;
use crate::error::Error;
use crate::local::{Local, Opening};
use crate::payload::{Done, Payload};
use crate::queue::{Command, What};
use crate::session::{MAX_REQUESTS, Volume};
use amita_reactor::mailbox::{Receiver as RingEnd, Sender as RingStart};
use amita_reactor::{Pool, Waker};
use amita_types::io::IoError;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// How long the core sleeps where nothing happens at all. Everything that happens wakes it.
const SLEEP: Duration = Duration::from_secs(10);
/// How often a client that closes looks whether all has ended.
const CLOSING: (u32, Duration) = (50, Duration::from_millis(100));

/// What the thread is told beside requests.
pub(super) enum Tell {
    Open {
        volume: String,
        /// It is to be compared with this snapshot.
        since: Option<String>,
        answer: Sender<Result<Volume, Error>>,
    },
    CloseVolume {
        volume: Volume,
        answer: Sender<Result<(), Error>>,
    },
    AddQueue {
        end: QueueEnd,
        answer: Sender<()>,
    },
    Stop,
}

/// The core's end of a queue.
pub(super) struct QueueEnd {
    commands: RingEnd<Command>,
    // Before the bell: whoever is woken finds the ring closed.
    ended: Option<RingStart<Done>>,
    bell: Waker,
}

impl QueueEnd {
    pub(super) fn new(commands: RingEnd<Command>, ended: RingStart<Done>, bell: Waker) -> QueueEnd {
        QueueEnd {
            commands,
            ended: Some(ended),
            bell,
        }
    }

    fn tell(&mut self, done: Done) {
        if let Some(ended) = &mut self.ended {
            // Full only where nobody is left to take anything: a ring is as long as its queue.
            let _ = ended.send(done);
        }
    }
}

impl Drop for QueueEnd {
    fn drop(&mut self) {
        self.ended = None;
        self.bell.wake();
    }
}

/// Runs a client until it is told to stop.
pub(super) fn run(config: &Config, told: &Receiver<Tell>, word: &Sender<Result<(Waker, Pool), Error>>) {
    let local = match Local::connect(config) {
        Ok(local) => local,
        Err(why) => return drop(word.send(Err(why))),
    };
    let _ = word.send(Ok((local.waker(), local.pool().clone())));
    let mut thread = Thread {
        local,
        queues: Vec::new(),
        wanted: VecDeque::new(),
        opening: None,
        done: Vec::new(),
    };
    thread.run(told);
    thread.finish();
}

/// A volume to be opened, and perhaps to be compared with a snapshot.
struct Wanted {
    volume: String,
    since: Option<String>,
    answer: Sender<Result<Volume, Error>>,
}

struct Thread {
    local: Local,
    /// By their numbers; the tags of requests name them.
    queues: Vec<Option<QueueEnd>>,
    /// Volumes to be opened, one after the other.
    wanted: VecDeque<Wanted>,
    opening: Option<(Opening, Sender<Result<Volume, Error>>)>,
    done: Vec<Done>,
}

impl Thread {
    fn run(&mut self, told: &Receiver<Tell>) {
        loop {
            while let Ok(tell) = told.try_recv() {
                if !self.hear(tell) {
                    return;
                }
            }
            self.open();
            self.take_commands();
            // What was refused, or ended at once, is told at once.
            if self.done.is_empty() {
                let limit = if self.opening.is_some() { SLEEP / 100 } else { SLEEP };
                self.local.turn(limit, &mut self.done);
            }
            self.hand_out();
        }
    }

    fn hear(&mut self, tell: Tell) -> bool {
        match tell {
            Tell::Open { volume, since, answer } => self.wanted.push_back(Wanted { volume, since, answer }),
            Tell::CloseVolume { volume, answer } => drop(answer.send(self.local.close_volume(&volume))),
            Tell::AddQueue { end, answer } => {
                match self.queues.iter_mut().find(|place| place.is_none()) {
                    Some(place) => *place = Some(end),
                    None => self.queues.push(Some(end)),
                }
                let _ = answer.send(());
            }
            Tell::Stop => return false,
        }
        true
    }

    fn open(&mut self) {
        if let Some((opening, _)) = &self.opening
            && let Some(opened) = self.local.opened(opening)
            && let Some((_, answer)) = self.opening.take()
        {
            // Whoever asked may be gone: then nobody uses it.
            if let Err(unheard) = answer.send(opened)
                && let Ok(volume) = unheard.0
            {
                let _ = self.local.close_volume(&volume);
            }
        }
        if self.opening.is_none()
            && let Some(Wanted { volume, since, answer }) = self.wanted.pop_front()
        {
            let opening = self.local.begin_open(&volume, since.as_deref());
            self.opening = Some((opening, answer));
        }
    }

    /// Takes what there is room for; the rest stays in the rings.
    fn take_commands(&mut self) {
        for (number, place) in self.queues.iter_mut().enumerate() {
            let Some(queue) = place else { continue };
            while self.local.under_way() < MAX_REQUESTS
                && let Some(command) = queue.commands.pop()
            {
                let tag = (number as u64) << 32 | u64::from(command.slot);
                if let Err(why) = start(&mut self.local, command, tag) {
                    self.done.push(refused(tag, &why));
                }
            }
            if queue.commands.is_closed() && !queue.commands.has_any() && queue.idle(&self.local) {
                *place = None;
            }
        }
    }

    fn hand_out(&mut self) {
        for mut done in self.done.drain(..) {
            let (number, slot) = ((done.tag >> 32) as usize, done.tag as u32);
            done.tag = slot.into();
            if let Some(Some(queue)) = self.queues.get_mut(number) {
                queue.tell(done);
            }
        }
    }

    /// Lets what is under way end, and leaves.
    fn finish(mut self) {
        for _ in 0..CLOSING.0 {
            self.take_commands();
            self.hand_out();
            if self.local.under_way() == 0 {
                break;
            }
            self.local.turn(CLOSING.1, &mut self.done);
            self.hand_out();
        }
        drop(self.queues);
        self.local.close();
    }
}

impl QueueEnd {
    /// A queue that was dropped gives its number to another only when nothing of any queue is under way, so that no end of
    /// a request can go astray.
    fn idle(&self, local: &Local) -> bool {
        local.under_way() == 0
    }
}

fn start(local: &mut Local, command: Command, tag: u64) -> Result<(), Error> {
    let volume = &command.volume;
    match command.what {
        What::Read { offset, bytes } => local.read(volume, offset, bytes, tag),
        What::Write { offset, data } => local.write(volume, offset, data, tag),
        What::Flush => local.flush(volume, tag),
        What::Discard { offset, bytes } => local.discard(volume, offset, bytes, tag),
        What::WriteZeroes { offset, bytes } => local.write_zeroes(volume, offset, bytes, tag),
        What::Changed { offset } => local.changed(volume, offset, tag),
        What::Allocated { offset } => local.allocated(volume, offset, tag),
        What::ChangedChunks { offset } => local.changed_chunks(volume, offset, tag),
    }
}

/// The queue has checked what it could; what is left is that the volume is not served here any more.
fn refused(tag: u64, why: &Error) -> Done {
    let error = match why {
        Error::NotOpen | Error::Lost { .. } => IoError::Lost,
        Error::OutOfRange { .. } => IoError::OutOfRange,
        Error::Full { .. } => IoError::Busy,
        _ => IoError::Invalid,
    };
    Done {
        tag,
        result: Err(error),
        payload: Payload::default(),
    }
}
