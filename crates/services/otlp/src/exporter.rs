//! The exporter of a node: a thread that asks its cores, and one that sends. Neither is on the path of an I/O, and neither keeps the process
//! from ending.

use crate::answer::Verdict;
use crate::clock::Zero;
use crate::delivery::{Delivery, Next};
use crate::headers::Headers;
use crate::proto::ExportTraceServiceRequest;
use crate::queue::{Cursor, Queue};
use crate::settings::Settings;
use crate::spans::{Kept, Source};
use crate::transport::Transport;
use amita_node::observe::{Exchange, ExportCounters, Fate, KeptTraces, TraceSource};
use amita_node::trace::Trace;
use amita_types::StoreId;
use prost::Message as _;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, watch};

/// For so long, in all, the end of an exporter is waited for: what has not been sent then is lost.
pub const END_PATIENCE: Duration = Duration::from_millis(1500);
/// Of that, for the cores' last traces.
const GATHER_PATIENCE: Duration = Duration::from_millis(500);
/// What is wrong again is told after so long at the earliest; what goes on being wrong, after so much longer.
const AGAIN: Duration = Duration::from_secs(60);
const STILL: Duration = Duration::from_secs(600);
/// How often it is looked whether a thread has ended.
const LOOK: Duration = Duration::from_millis(10);

/// An exporter that runs. Dropped, it sends what it still has, if the collector takes it at once, and ends.
#[derive(Debug)]
pub struct Exporter {
    stop_gathering: Option<Sender<()>>,
    stop_sending: watch::Sender<bool>,
    gatherer: Option<JoinHandle<()>>,
    sender: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread, no event loop or no random numbers.
    pub fn start(settings: Settings, source: TraceSource) -> io::Result<Exporter> {
        let mut start = [0; 16];
        aws_lc_rs::rand::fill(&mut start).map_err(|_| io::Error::other("the system has no random numbers"))?;
        let who = Source {
            cluster: source.cluster,
            node: source.node,
            name: source.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            start,
        };
        let settings = Arc::new(settings);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(settings.pacing.waiting)),
            filled: Notify::new(),
            counters: Arc::clone(&source.counters),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop_gathering, gathering_stopped) = channel();
        let (stop_sending, sending_stopped) = watch::channel(false);
        let gatherer = Gatherer {
            source,
            shared: Arc::clone(&shared),
            cursor: Cursor::default(),
            zero: Zero::default(),
        };
        let every = settings.pacing.every;
        let gatherer = spawn("amita-otlp-ask", move || gatherer.run(every, &gathering_stopped))?;
        // From here on, an error ends the other thread.
        let mut exporter = Exporter {
            stop_gathering: Some(stop_gathering),
            stop_sending,
            gatherer: Some(gatherer),
            sender: None,
        };
        let sending = Sending {
            delivery: Delivery::new(settings.pacing),
            transport: Transport::new(Arc::clone(&settings)),
            settings,
            source: who,
            shared,
            stopped: sending_stopped,
            began: Instant::now(),
            headers: Headers::default(),
            is_in_trouble: false,
            said: None,
        };
        exporter.sender = Some(spawn("amita-otlp-send", move || {
            runtime.block_on(sending.run());
            // A look-up of a name that hangs keeps nobody waiting.
            runtime.shutdown_background();
        })?);
        Ok(exporter)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let began = Instant::now();
        drop(self.stop_gathering.take());
        end(self.gatherer.take(), began, GATHER_PATIENCE);
        self.stop_sending.send_replace(true);
        end(self.sender.take(), began, END_PATIENCE);
    }
}

/// Waits for the end of a thread, until so long after `began`.
fn end(thread: Option<JoinHandle<()>>, began: Instant, patience: Duration) {
    let Some(thread) = thread else { return };
    while !thread.is_finished() && began.elapsed() < patience {
        std::thread::sleep(LOOK);
    }
    if thread.is_finished() && thread.join().is_err() {
        log::error!("the exporter of traces has panicked");
    }
}

/// What both threads have.
struct Shared {
    queue: Mutex<Queue>,
    filled: Notify,
    counters: Arc<ExportCounters>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, traces: Vec<Kept>) {
        let mut queue = self.queue();
        let dropped = queue.push(traces);
        self.counters.set_waiting(queue.len() as u64);
        drop(queue);
        self.counters.count(Fate::Full, dropped);
        self.filled.notify_one();
    }

    fn take(&self, most: usize) -> Vec<Kept> {
        let mut queue = self.queue();
        let taken = queue.take(most);
        self.counters.set_waiting(queue.len() as u64);
        taken
    }
}

/// Asks the cores.
struct Gatherer {
    source: TraceSource,
    shared: Arc<Shared>,
    cursor: Cursor,
    zero: Zero,
}

impl Gatherer {
    fn run(mut self, every: Duration, stopped: &Receiver<()>) {
        loop {
            let is_last = !matches!(stopped.recv_timeout(every), Err(RecvTimeoutError::Timeout));
            self.gather();
            if is_last {
                return;
            }
        }
    }

    fn gather(&mut self) {
        let mut answers = (self.source.collect)(self.cursor.after());
        for (received, answer) in &answers {
            self.zero.learn(*received, answer.now);
        }
        let zero_unix_ns = self.zero.unix_ns();
        let mut all = Vec::new();
        for (_, answer) in &mut answers {
            let (traces, lost) = self.cursor.take(answer);
            self.shared.counters.count(Fate::Overwritten, lost);
            all.extend(traces.into_iter().map(|trace| with_names(trace, answer, zero_unix_ns)));
        }
        if !all.is_empty() {
            self.shared.push(all);
        }
    }
}

/// A trace, with what a core knows of the names in it.
fn with_names(trace: Trace, answer: &KeptTraces, zero_unix_ns: u64) -> Kept {
    let volume = answer.volumes.iter().find(|(id, _)| *id == trace.volume);
    let is_in_it = |store: StoreId| {
        let is_asked = trace.legs.iter().any(|leg| leg.store == store);
        is_asked || [trace.last, trace.missed].contains(&Some(store))
    };
    let nodes = answer.nodes.iter().filter(|(store, _)| is_in_it(*store));
    Kept {
        core: answer.core,
        volume: volume.map(|(_, name)| name.clone()),
        nodes: nodes.cloned().collect(),
        zero_unix_ns,
        trace,
    }
}

/// Sends.
struct Sending {
    settings: Arc<Settings>,
    source: Source,
    shared: Arc<Shared>,
    delivery: Delivery,
    transport: Transport,
    stopped: watch::Receiver<bool>,
    began: Instant,
    /// As the file had them when it could last be read.
    headers: Headers,
    is_in_trouble: bool,
    /// When it was said last that something is wrong.
    said: Option<Instant>,
}

impl Sending {
    async fn run(mut self) {
        loop {
            let batch = self.shared.take(self.settings.pacing.batch);
            if !batch.is_empty() {
                if !self.deliver(&batch).await {
                    return;
                }
                continue;
            }
            tokio::select! {
                () = self.shared.filled.notified() => {}
                _ = self.stopped.wait_for(|stopped| *stopped) => {
                    if self.shared.queue().is_empty() {
                        return;
                    }
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Sends a batch until it is done with; `false`: there is an end to everything.
    async fn deliver(&mut self, batch: &[Kept]) -> bool {
        let spans = batch.iter().flat_map(|kept| self.source.spans(kept)).collect();
        let message = ExportTraceServiceRequest {
            resource_spans: vec![self.source.wrap(spans)],
        };
        let message = message.encode_to_vec();
        let counters = Arc::clone(&self.shared.counters);
        let traces = batch.len() as u64;
        loop {
            match self.delivery.next(self.now()) {
                Next::GiveUp => {
                    counters.count(Fate::Late, traces);
                    return !self.is_stopped();
                }
                Next::Wait(pause) => {
                    tokio::select! {
                        () = tokio::time::sleep(pause) => continue,
                        // Who ends does not wait for a collector that has failed.
                        _ = self.stopped.wait_for(|stopped| *stopped) => {
                            counters.count(Fate::Late, traces);
                            return false;
                        }
                    }
                }
                Next::Send => {}
            }
            let random = random();
            match self.attempt(&message).await {
                Ok(Verdict::Accepted { rejected, message }) => {
                    counters.count(Fate::Accepted, traces);
                    counters.count_request(Exchange::Accepted);
                    counters.count_rejected(rejected);
                    self.delivery.accepted();
                    self.went_well(rejected, &message);
                    return true;
                }
                Ok(Verdict::Refused { why }) => {
                    counters.count(Fate::Refused, traces);
                    counters.count_request(Exchange::Refused);
                    self.delivery.refused(self.now(), random);
                    self.warn(&format!("does not want the traces of I/Os, and they are lost: {why}"));
                    return !self.is_stopped();
                }
                Ok(Verdict::Again { after, why }) => {
                    counters.count_request(Exchange::Deferred);
                    self.delivery.deferred(self.now(), after, random);
                    self.warn(&format!("takes no traces of I/Os now, and is asked again: {why}"));
                }
                Err(why) => {
                    counters.count_request(Exchange::Failed);
                    self.delivery.deferred(self.now(), None, random);
                    self.warn(&format!("cannot be told of traces of I/Os, and is asked again: {why}"));
                }
            }
        }
    }

    async fn attempt(&mut self, message: &[u8]) -> Result<Verdict, String> {
        // The token may have been exchanged. Where the file cannot be read, what it had is better than nothing.
        match self.settings.load_headers() {
            Ok(headers) => self.headers = headers,
            Err(why) if self.headers.is_empty() => return Err(why.to_string()),
            Err(_) => {}
        }
        let timeout = self.settings.pacing.timeout;
        let answer = match tokio::time::timeout(timeout, self.transport.post(&self.headers, message)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(format!("no answer within {timeout:?}")),
        };
        Ok(answer.verdict(SystemTime::now()))
    }

    /// Says what is wrong, and not again and again.
    fn warn(&mut self, text: &str) {
        let rest = if self.is_in_trouble { STILL } else { AGAIN };
        self.is_in_trouble = true;
        if self.said.is_some_and(|at| at.elapsed() < rest) {
            return;
        }
        self.said = Some(Instant::now());
        let (endpoint, text) = (&self.settings.endpoint, crate::clipped(&self.headers.scrub(text)));
        log::warn!("the collector {endpoint} {text}; what is lost is counted by amita_otlp_traces_total");
    }

    fn went_well(&mut self, rejected: u64, message: &str) {
        if rejected > 0 {
            let message = if message.is_empty() {
                "it does not say why"
            } else {
                message
            };
            return self.warn(&format!("has not taken some spans: {message}"));
        }
        if std::mem::take(&mut self.is_in_trouble) {
            log::info!("the collector {} takes the traces of I/Os", self.settings.endpoint);
        }
    }
}

/// Any byte; where the system has none, nodes come back together.
fn random() -> u8 {
    let mut byte = [0];
    let _ = aws_lc_rs::rand::fill(&mut byte);
    byte[0]
}
