//! Which chunks of a volume may have been changed between two snapshots, as those say who sequence them (`Op::ChangedChunks`), and who is asked.

use crate::io::Payload;
use amita_reactor::Slice;

/// How many chunks a window has: 16 GiB, where they are of 4 MiB.
pub const CHANGED_CHUNKS: usize = 1 << 12;
const WINDOW: u64 = CHANGED_CHUNKS as u64;
/// Bytes of what is told of one.
pub const CHANGED_CHUNKS_BYTES: usize = 2 * CHANGED_CHUNKS / 8;
/// So many windows are asked for at one time at most.
const MOST_WINDOWS: u64 = 16;
/// And so many questions are under way.
const MOST_QUESTIONS: usize = 64;

/// What one who sequences chunks says of a window of them: a bit for each chunk that is answered for, and then a bit for each of those that may have
/// been changed; the first chunk is the lowest bit of the first byte. What is not answered for may have been changed. Windows begin at multiples of
/// [`CHANGED_CHUNKS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedChunks {
    bytes: Box<[u8; CHANGED_CHUNKS_BYTES]>,
}

impl Default for ChangedChunks {
    fn default() -> ChangedChunks {
        ChangedChunks {
            bytes: Box::new([0; CHANGED_CHUNKS_BYTES]),
        }
    }
}

impl ChangedChunks {
    /// As [`ChangedChunks::to_payload`] has them; `None`: it is of another length.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<ChangedChunks> {
        let bytes = Box::new(bytes.try_into().ok()?);
        Some(ChangedChunks { bytes })
    }

    /// The bytes that it consists of.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        Payload::Data(Slice::copy_from(&self.bytes[..]))
    }

    /// The chunks of the window that this one is in.
    pub fn window_of(chunk: u64) -> impl Iterator<Item = u64> {
        let first = chunk - chunk % WINDOW;
        (0..WINDOW).map_while(move |at| first.checked_add(at))
    }

    /// Answers for a chunk of the window.
    pub fn answer(&mut self, chunk: u64, may_be_changed: bool) {
        let (byte, bit) = place(chunk);
        self.bytes[byte] |= bit;
        if may_be_changed {
            self.bytes[CHANGED_CHUNKS / 8 + byte] |= bit;
        }
    }

    /// Is a chunk of the window answered for, and if so, may it have been changed?
    #[must_use]
    pub fn of(&self, chunk: u64) -> Option<bool> {
        let (byte, bit) = place(chunk);
        let has = |byte: usize| self.bytes[byte] & bit != 0;
        has(byte).then(|| has(CHANGED_CHUNKS / 8 + byte))
    }

    /// For how many chunks it answers.
    #[must_use]
    pub fn count(&self) -> usize {
        let answered = self.bytes[..CHANGED_CHUNKS / 8].iter();
        answered.map(|byte| byte.count_ones() as usize).sum()
    }

    /// What another one answers for of the same window is answered for.
    fn merge(&mut self, other: &ChangedChunks) {
        for (byte, more) in self.bytes.iter_mut().zip(&other.bytes[..]) {
            *byte |= more;
        }
    }
}

fn place(chunk: u64) -> (usize, u8) {
    let at = (chunk % WINDOW) as usize;
    (at / 8, 1 << (at % 8))
}

/// Asks for the chunks of some windows until all are answered for, or nobody knows. Each core of a volume's owner answers for its own chunks, and which
/// those are is its own business: at one chunk is asked first, for there may be one core only, and then at more and more that nobody has answered for.
#[derive(Clone, Debug, Default)]
pub struct ChangedSearch {
    first: u64,
    end: u64,
    windows: Vec<ChangedChunks>,
    /// How many are asked at of one window.
    at_once: usize,
    /// For how many chunks of a window one core answers.
    of_one: usize,
    is_over: bool,
}

impl ChangedSearch {
    /// For the chunks from `first` to `end`, which is none of them any more, as many as are asked for at one time.
    #[must_use]
    pub fn new(first: u64, end: u64) -> ChangedSearch {
        let first_window = first / WINDOW;
        let windows = end.max(first).div_ceil(WINDOW) - first_window;
        let windows = windows.min(MOST_WINDOWS);
        ChangedSearch {
            first,
            end: end.min((first_window + windows) * WINDOW),
            windows: vec![ChangedChunks::default(); windows as usize],
            at_once: 1,
            of_one: 0,
            is_over: false,
        }
    }

    /// The chunk behind the last one that is asked for.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Is it among those that are asked for?
    #[must_use]
    pub fn has(&self, chunk: u64) -> bool {
        (self.first..self.end).contains(&chunk)
    }

    fn window(&self, chunk: u64) -> Option<usize> {
        let at = usize::try_from(chunk.checked_sub(self.first - self.first % WINDOW)? / WINDOW);
        at.ok().filter(|_| self.has(chunk))
    }

    fn of(&self, chunk: u64) -> Option<bool> {
        self.windows.get(self.window(chunk)?)?.of(chunk)
    }

    /// May it have been changed? So it may where nobody has said otherwise.
    #[must_use]
    pub fn may_be_changed(&self, chunk: u64) -> bool {
        self.of(chunk).unwrap_or(true)
    }

    /// Chunks at which is to be asked now; none: that was all. Each is to be [`answered`](ChangedSearch::answered) before there are more.
    pub fn questions(&mut self) -> Vec<u64> {
        let mut questions = Vec::new();
        let mut from = self.first;
        while from < self.end && !self.is_over && questions.len() < MOST_QUESTIONS {
            let until = self.end.min((from / WINDOW + 1) * WINDOW);
            let unknown: Vec<u64> = (from..until).filter(|chunk| self.of(*chunk).is_none()).collect();
            // Hardly more than there can be cores that have not answered.
            let asked_for = usize::try_from(until - from).unwrap_or(CHANGED_CHUNKS);
            let of_one = self.of_one * asked_for / CHANGED_CHUNKS;
            let left = (unknown.len() + of_one / 2).checked_div(of_one);
            let left = left.unwrap_or(unknown.len()).max(unknown.len().min(1));
            let count = self.at_once.min(left).min(MOST_QUESTIONS - questions.len());
            questions.extend_from_slice(&unknown[..count]);
            from = until;
        }
        self.at_once = MOST_QUESTIONS.min(2 * self.at_once);
        questions
    }

    /// What was told where it was asked at that chunk; nothing: it was refused. Who has not answered for that chunk itself knows nothing.
    pub fn answered(&mut self, chunk: u64, told: Option<&ChangedChunks>) {
        let told = told.filter(|told| told.of(chunk).is_some());
        let (Some(told), Some(window)) = (told, self.window(chunk)) else {
            self.is_over = true;
            return;
        };
        self.windows[window].merge(told);
        self.of_one = self.of_one.max(told.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkId, ChunkIndex, VolumeId};

    const CHANGED: [u64; 6] = [0, 1, 4095, 4096, 9000, 70_000];

    fn core_of(chunk: u64, cores: usize) -> usize {
        let (volume, index) = (VolumeId(7), ChunkIndex(chunk));
        ChunkId { volume, index }.core(cores)
    }

    /// What the core says that sequences that chunk.
    fn told(chunk: u64, cores: usize) -> ChangedChunks {
        let mut told = ChangedChunks::default();
        let own = ChangedChunks::window_of(chunk).filter(|other| core_of(*other, cores) == core_of(chunk, cores));
        own.for_each(|own| told.answer(own, CHANGED.contains(&own)));
        told
    }

    /// Searches; returns how often it was asked in how many rounds.
    fn search(search: &mut ChangedSearch, mut tell: impl FnMut(u64) -> Option<ChangedChunks>) -> (usize, usize) {
        let (mut questions, mut rounds) = (0, 0);
        loop {
            let asked = search.questions();
            if asked.is_empty() {
                return (questions, rounds);
            }
            (questions, rounds) = (questions + asked.len(), rounds + 1);
            assert!(rounds < 100, "it comes to an end");
            for chunk in asked {
                search.answered(chunk, tell(chunk).as_ref());
            }
        }
    }

    #[test]
    fn all_cores_are_found_and_hardly_any_is_asked_twice() {
        for (cores, most) in [(1, 1), (2, 2), (16, 40), (128, 400)] {
            let mut one = ChangedSearch::new(0, WINDOW);
            let (questions, rounds) = search(&mut one, |chunk| Some(told(chunk, cores)));
            assert!(
                questions >= cores && questions <= most && rounds <= 16,
                "{cores} cores: {questions} questions in {rounds} rounds"
            );
            for chunk in 0..WINDOW {
                assert_eq!(
                    one.of(chunk),
                    Some(CHANGED.contains(&chunk)),
                    "{chunk} of {cores} cores"
                );
            }
        }
    }

    #[test]
    fn several_windows_are_asked_for_at_one_time_and_no_more_than_that() {
        let mut many = ChangedSearch::new(4000, 80_000);
        assert_eq!(many.end(), MOST_WINDOWS * WINDOW);
        let (_, rounds) = search(&mut many, |chunk| Some(told(chunk, 3)));
        assert!(rounds < 10, "{rounds}");
        let changed: Vec<u64> = (0..80_000).filter(|chunk| many.of(*chunk) == Some(true)).collect();
        assert_eq!(changed, [4095, 4096, 9000]);
        assert!((4000..many.end()).all(|chunk| many.of(chunk).is_some()));
        assert!(
            many.may_be_changed(3999) && many.may_be_changed(many.end()),
            "nobody has asked"
        );
        let mut rest = ChangedSearch::new(many.end(), 80_000);
        assert_eq!(rest.end(), 80_000);
        search(&mut rest, |chunk| Some(told(chunk, 3)));
        assert!(rest.may_be_changed(70_000) && !rest.may_be_changed(79_999) && rest.may_be_changed(80_000));
    }

    #[test]
    fn what_nobody_answers_for_may_have_been_changed() {
        let mut refused = ChangedSearch::new(0, 2 * WINDOW);
        let (questions, rounds) = search(&mut refused, |_| None);
        assert_eq!((questions, rounds), (2, 1));
        assert!((0..2 * WINDOW).all(|chunk| refused.may_be_changed(chunk)));
        // Another one has the volume from the second round on, who knows nothing: what the first has said stands.
        let mut first = true;
        let mut changes = ChangedSearch::new(0, WINDOW);
        search(&mut changes, |chunk| {
            std::mem::take(&mut first)
                .then(|| told(chunk, 2))
                .or_else(|| Some(ChangedChunks::default()))
        });
        for chunk in 0..WINDOW {
            let is_of_first = core_of(chunk, 2) == core_of(0, 2);
            assert_eq!(changes.of(chunk), is_of_first.then(|| CHANGED.contains(&chunk)));
        }
        assert_eq!(
            search(&mut ChangedSearch::new(5, 5), |_| panic!("there is none")),
            (0, 0)
        );
    }

    #[test]
    fn it_travels_as_bytes() {
        let all = told(4096, 3);
        let Payload::Data(bytes) = all.to_payload() else {
            panic!("it is bytes")
        };
        assert_eq!(bytes.len(), CHANGED_CHUNKS_BYTES);
        assert_eq!(ChangedChunks::read(&bytes), Some(all));
        assert_eq!(ChangedChunks::read(&bytes[1..]), None);
    }
}
