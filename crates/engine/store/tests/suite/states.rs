//! A store that was away is brought what a chunk was for its snapshots (rules S5, S6): two stores, the one that has missed
//! something and the one that has not, and an owner who does what a sequencer does. In the end both have the same for each
//! snapshot, and use the same number of slots for it.

use crate::common::check::is_clean;
use crate::common::{BLOCK, Requester, Rig, Rng};
use amita_reactor::Slice;
use amita_store::{AskedVolume, Count, Question, State, VolumeFigures};
use amita_types::io::Differs;
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChangesRequest, ClearRequest, CloseRequest, DataAnswer, DifferRequest,
    DiffersAnswer, Expect, FrameRequest, JoinRequest, MAX_CHANGES, Mend, MendRequest, MendedAnswer, Problem,
    PutRequest, ReadRequest, Refusal, RequestBody, RetainSnapshotsRequest, StateInfo, StatesAnswer, StatesRequest,
    WholeRequest,
};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, GroupIndex, SnapshotId, Version, crc32c};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: ChunkIndex = ChunkIndex(0);
/// Two leaves.
const BLOCKS: u16 = 256;
/// The blocks that are used: some of each leaf.
const USED: [u16; 12] = [0, 1, 2, 3, 60, 126, 127, 128, 129, 130, 200, 255];
const SIZE: u64 = 4 << 20;

type Result = std::result::Result<AnswerBody, Refusal>;

/// One of the two stores, and who asks it.
struct Side {
    rig: Rig,
    asker: Requester,
}

impl Side {
    fn new(link: u64, syncing: bool) -> Side {
        let mut rig = Rig::fresh(SIZE, false);
        let mut asker = Requester::new(link);
        asker.blocks_per_chunk = BLOCKS;
        asker.syncing = syncing;
        assert_eq!(asker.fence(&mut rig), Ok(AnswerBody::Fenced));
        Side { rig, asker }
    }

    fn ask_with(&mut self, at: SnapshotId, body: RequestBody, payload: &[u8]) -> (Result, Vec<u8>) {
        let mut request = self.asker.request(body);
        request.scope.snapshot = at;
        let told = self.asker.ask(&mut self.rig, request, Slice::copy_from(payload));
        (told.answer.result, told.payload.to_vec())
    }

    fn ask(&mut self, at: SnapshotId, body: RequestBody) -> AnswerBody {
        self.ask_with(at, body, &[]).0.expect("it is answered")
    }

    fn fence(&mut self, syncing: bool) {
        self.asker.syncing = syncing;
        self.asker.generation = Generation(self.asker.generation.0 + 1);
        self.asker.epoch = Epoch(self.asker.epoch.0 + 1);
        assert_eq!(self.asker.fence(&mut self.rig), Ok(AnswerBody::Fenced));
    }

    /// The process was killed, or the power went.
    fn crash(&mut self, rng: &mut Rng) {
        self.rig.store.end_pass(self.rig.now);
        self.rig.pump();
        let image = self.rig.cut(rng);
        is_clean(&image, true);
        self.rig = self.rig.reopened(image);
        self.rig.run();
        assert_eq!(*self.rig.store.state(), State::Serving);
        assert_eq!(self.asker.fence(&mut self.rig), Ok(AnswerBody::Fenced));
    }

    fn states(&mut self) -> StatesAnswer {
        let mut all: Option<StatesAnswer> = None;
        loop {
            let from = all.as_ref().and_then(|all| all.more).unwrap_or_default();
            let body = RequestBody::States(StatesRequest { chunk: CHUNK, from });
            let AnswerBody::States(page) = self.ask(SnapshotId::HEAD, body) else {
                panic!("no states")
            };
            let all = all.get_or_insert(StatesAnswer {
                states: Vec::new(),
                ..page
            });
            all.states.extend(&page.states);
            all.more = page.more;
            if all.more.is_none() {
                return all.clone();
            }
        }
    }

    fn entries(&mut self, at: SnapshotId) -> BTreeMap<u16, Change> {
        let mut all = BTreeMap::new();
        let mut next = Some(BlockIndex(0));
        while let Some(from) = next {
            let since = Version::NONE;
            let chunk = CHUNK;
            let body = RequestBody::Changes(ChangesRequest { chunk, since, from });
            let AnswerBody::Changes(ChangesAnswer { entries, more }) = self.ask(at, body) else {
                panic!("no entries")
            };
            all.extend(entries.into_iter().map(|change| (change.block.0, change)));
            next = more;
        }
        all
    }

    fn read(&mut self, at: SnapshotId, block: u16) -> std::result::Result<Vec<u8>, Refusal> {
        let body = RequestBody::Read(ReadRequest {
            chunk: CHUNK,
            range: BlockRange::new(block, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        let (result, payload) = self.ask_with(at, body, &[]);
        let AnswerBody::Data(DataAnswer { sums, .. }) = result? else {
            panic!("no data")
        };
        assert!(sums.iter().all(|sum| *sum == crc32c(&payload)));
        Ok(payload)
    }

    fn differ(&mut self, since: SnapshotId, at: SnapshotId) -> std::result::Result<Differs, Refusal> {
        let body = RequestBody::Differ(DifferRequest {
            chunk: CHUNK,
            since,
            least: Version::NONE,
            newest: None,
        });
        match self.ask_with(at, body, &[]).0? {
            AnswerBody::Differs(DiffersAnswer { differs, .. }) => Ok(*differs),
            other => panic!("{other:?}"),
        }
    }

    fn keep(&mut self, live: &[SnapshotId]) {
        let body = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
            chunk: CHUNK,
            head: true,
            above: SnapshotId::HEAD,
            to: SnapshotId(u32::MAX),
            live: live.to_vec(),
        });
        assert_eq!(self.ask(SnapshotId::HEAD, body), AnswerBody::Done);
    }

    /// What the volume holds, if these are its snapshots.
    fn figures(&mut self, live: &[SnapshotId]) -> VolumeFigures {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let question = Arc::new(Question {
            number: ASKED.fetch_add(1, Ordering::Relaxed),
            groups: 1,
            speaks_for: [GroupIndex(0)].into_iter().collect(),
            volumes: [AskedVolume {
                volume: self.asker.volume,
                place: None,
                live: live.to_vec(),
                ..AskedVolume::default()
            }]
            .into(),
        });
        loop {
            match self.rig.store.count(self.rig.now, &question) {
                Count::Counting { .. } => {}
                Count::Done(figures) => return figures[0].clone(),
                other => panic!("{other:?}"),
            }
            self.rig.run();
            let at = self.rig.store.deadline().unwrap_or_default();
            self.rig.now = self.rig.now.max(at);
        }
    }

    fn slots(&mut self) -> u64 {
        self.rig.store.status().blocks
    }
}

/// How often everything came to pass: what never did was not tested.
#[derive(Debug, Default)]
struct Score {
    framed: u64,
    put: u64,
    shared: u64,
    with_data: u64,
    dropped: u64,
    crashes: u64,
    compared: u64,
    changed: u64,
    unborn: u64,
    back: u64,
    given_up: u64,
    stored_again: u64,
}

/// What the owner is doing for the member.
#[derive(Debug, Default)]
struct Plan {
    /// The source's, when its states were listed.
    number: SnapshotId,
    born: SnapshotId,
    /// The states of the target that stay, if some do not.
    drops: Option<Vec<SnapshotId>>,
    todo: Vec<StateInfo>,
    /// The state under way, and the block from which on it is compared.
    at: Option<(StateInfo, u16)>,
}

struct Game {
    rng: Rng,
    source: Side,
    target: Side,
    /// Of what the source was written last.
    version: Version,
    number: SnapshotId,
    /// The target takes writes.
    joined: bool,
    score: Score,
}

impl Game {
    fn new(seed: u64) -> Game {
        Game {
            rng: Rng(seed),
            source: Side::new(1, false),
            target: Side::new(2, false),
            version: Version::NONE,
            number: SnapshotId::HEAD,
            joined: true,
            score: Score::default(),
        }
    }

    fn maybe_crash(&mut self, one_in: usize) {
        if self.rng.chance(one_in) {
            self.target.crash(&mut self.rng);
            self.score.crashes += 1;
        }
    }

    /// A host writes: to the target too, where that takes writes.
    fn write(&mut self) {
        if self.rng.chance(5) {
            self.number = SnapshotId(self.number.0 + 1);
        }
        let (version, previous) = (self.next(), self.version);
        let (body, payload) = self.change(version, previous);
        let (number, sent) = (self.number, body.clone());
        assert_eq!(self.source.ask_with(number, sent, &payload).0, Ok(AnswerBody::Done));
        if self.joined {
            assert_eq!(self.target.ask_with(number, body, &payload).0, Ok(AnswerBody::Done));
        }
        self.version = version;
    }

    fn next(&self) -> Version {
        self.version.next(self.source.asker.generation).expect("few writes")
    }

    fn change(&mut self, version: Version, previous: Version) -> (RequestBody, Vec<u8>) {
        let block = USED[self.rng.below(USED.len())];
        if self.rng.chance(5) {
            let (first, count) = match self.rng.below(3) {
                0 => (0, 128),
                1 => (128, 128),
                _ => (block, 1),
            };
            let range = BlockRange::new(first, count);
            let body = RequestBody::Clear(ClearRequest {
                chunk: CHUNK,
                range,
                version,
                previous,
            });
            return (body, Vec::new());
        }
        let bytes = self.rng.next().to_le_bytes().repeat(BLOCK / 8);
        let offset = u32::from(block) * BLOCK as u32;
        let request = self
            .source
            .asker
            .write_request(CHUNK.0, offset, &bytes, version, previous);
        (request.body, bytes)
    }

    /// The target goes, and may take changes of a history that is given up; the source goes on.
    fn leave(&mut self) {
        self.joined = false;
        let (mut version, mut number) = (self.version, self.number);
        for _ in 0..self.rng.below(4) {
            if self.rng.chance(2) {
                number = SnapshotId(number.0 + 1);
            }
            let next = version.next(self.target.asker.generation).expect("few writes");
            let (body, payload) = self.change(next, version);
            self.score.given_up += match &body {
                RequestBody::Clear(clear) => u64::from(clear.range.count).min(USED.len() as u64),
                _ => 1,
            };
            let (result, _) = self.target.ask_with(number, body, &payload);
            assert_eq!(result, Ok(AnswerBody::Done));
            version = next;
        }
        // Its numbers were voided: they are not given again.
        self.number = number;
        self.source.fence(false);
        self.target.fence(true);
        for _ in 0..self.rng.below(12) {
            self.write();
        }
        if self.rng.chance(3) {
            self.trim();
        }
    }

    /// Some snapshots go, at the source; at the target too, where it is told.
    fn trim(&mut self) {
        let states = self.source.states().states;
        let live: Vec<SnapshotId> = states
            .iter()
            .map(|state| state.to)
            .filter(|_| !self.rng.chance(3))
            .collect();
        self.source.keep(&live);
        if self.joined {
            self.target.keep(&live);
        }
    }

    /// Its head is made what the source's is, by what is in neither's way.
    fn mend_head(&mut self) {
        let (source, target) = (
            self.source.entries(SnapshotId::HEAD),
            self.target.entries(SnapshotId::HEAD),
        );
        for block in 0..BLOCKS {
            let (right, held) = (source.get(&block), target.get(&block));
            if right == held {
                continue;
            }
            let data = match right.and_then(|right| right.sum) {
                Some(_) => self.source.read(SnapshotId::HEAD, block).expect("the source is whole"),
                None => Vec::new(),
            };
            let expect = held.map_or((Version::NONE, None), |held| (held.version, held.sum));
            let entries = vec![Mend {
                block: BlockIndex(block),
                expect: Expect::Entry {
                    version: expect.0,
                    sum: expect.1,
                },
                version: right.map_or(Version::NONE, |right| right.version),
                sum: right.and_then(|right| right.sum),
            }];
            let body = RequestBody::Mend(MendRequest { chunk: CHUNK, entries });
            let skipped = Vec::new();
            let (result, _) = self.target.ask_with(SnapshotId::HEAD, body, &data);
            assert_eq!(result, Ok(AnswerBody::Mended(MendedAnswer { skipped })));
        }
    }

    /// What the sequencer does for a member that comes back, with writes and crashes in between.
    fn bring(&mut self) {
        let at = self.version;
        let body = RequestBody::Join(JoinRequest { chunk: CHUNK, at });
        let number = self.number_of();
        let (result, _) = self.target.ask_with(number, body, &[]);
        let Ok(AnswerBody::Joined(joined)) = result else {
            panic!("{result:?}")
        };
        self.joined = true;
        self.score.back += u64::from(joined.incomplete.is_some_and(|base| base > at));
        if joined.incomplete.is_none() {
            return;
        }
        self.mend_head();
        let mut plan = None;
        loop {
            self.maybe_crash(25);
            if self.rng.chance(4) {
                self.write();
            }
            if self.rng.chance(40) {
                // The source trims alone: what is asked of it then is gone, and all is listed anew.
                let states = self.source.states().states;
                let live: Vec<SnapshotId> = states.iter().map(|state| state.to).skip(1).collect();
                self.source.keep(&live);
            }
            if self.rng.chance(30) {
                plan = None;
            }
            match &mut plan {
                None => plan = Some(self.plan()),
                Some(known) => match self.step(known) {
                    Some(true) => {}
                    Some(false) => plan = None,
                    None => {
                        let (number, born) = (known.number, known.born);
                        if self.whole(number, born) {
                            return;
                        }
                        plan = None;
                    }
                },
            }
        }
    }

    /// The number that the newest version carries: that of the last write, and not the newest that was taken.
    fn number_of(&mut self) -> SnapshotId {
        self.source.states().number
    }

    fn plan(&mut self) -> Plan {
        let (source, target) = (self.source.states(), self.target.states());
        let same = |one: &StateInfo, other: &StateInfo| {
            (one.above, one.to, one.version) == (other.above, other.to, other.version)
        };
        let whole = |state: &&StateInfo| target.states.iter().any(|own| same(own, state) && !own.open);
        let todo: Vec<StateInfo> = source.states.iter().filter(|state| !whole(state)).copied().collect();
        // An open one goes on only if nothing newer is lacking.
        let goes_on = |state: &StateInfo| !state.open || todo.last().is_some_and(|newest| same(newest, state));
        let kept = |state: &&StateInfo| goes_on(state) && source.states.iter().any(|other| same(state, other));
        let live: Vec<SnapshotId> = target.states.iter().filter(kept).map(|state| state.to).collect();
        Plan {
            number: source.number,
            born: source.born,
            drops: (live.len() < target.states.len()).then_some(live),
            todo,
            at: None,
        }
    }

    /// One request further. `None`: there is nothing more; `Some(false)`: all is to be listed anew.
    fn step(&mut self, plan: &mut Plan) -> Option<bool> {
        if let Some(live) = plan.drops.take() {
            self.target.keep(&live);
            self.score.dropped += 1;
            return Some(true);
        }
        let Some((state, from)) = plan.at else {
            let state = plan.todo.pop()?;
            plan.at = Some((state, 0));
            let body = RequestBody::Frame(FrameRequest {
                chunk: CHUNK,
                above: state.above,
                to: state.to,
                version: state.version,
            });
            self.score.framed += 1;
            let (result, _) = self.target.ask_with(SnapshotId::HEAD, body, &[]);
            return Some(match result {
                Ok(AnswerBody::Done) => true,
                Err(
                    Refusal::Busy
                    | Refusal::Invalid {
                        what: Problem::Snapshot,
                    },
                ) => false,
                other => panic!("{other:?}"),
            });
        };
        if !self.source.states().states.contains(&state) {
            return Some(false);
        }
        if from >= BLOCKS {
            plan.at = None;
            let body = RequestBody::Close(CloseRequest {
                chunk: CHUNK,
                to: state.to,
                version: state.version,
            });
            assert_eq!(self.target.ask(SnapshotId::HEAD, body), AnswerBody::Done);
            return Some(true);
        }
        let end = (from + 1 + self.rng.below(usize::from(BLOCKS)) as u16).min(BLOCKS);
        let (right, held) = (self.source.entries(state.to), self.target.entries(state.to));
        let mut entries = Vec::new();
        for block in from..end {
            if right.get(&block) != held.get(&block) {
                let never = Change {
                    block: BlockIndex(block),
                    version: Version::NONE,
                    sum: None,
                };
                entries.push(right.get(&block).copied().unwrap_or(never));
            }
        }
        let end = entries.get(MAX_CHANGES).map_or(end, |change| change.block.0);
        entries.truncate(MAX_CHANGES);
        if !entries.is_empty() && !self.put(state, &entries) {
            return Some(false);
        }
        plan.at = Some((state, end));
        Some(true)
    }

    fn put(&mut self, state: StateInfo, entries: &[Change]) -> bool {
        let mut with_data = 0;
        let mut payload = Vec::new();
        loop {
            let body = RequestBody::Put(PutRequest {
                chunk: CHUNK,
                to: state.to,
                with_data,
                version: state.version,
                entries: entries.to_vec(),
            });
            self.score.put += 1;
            let (result, _) = self.target.ask_with(SnapshotId::HEAD, body, &payload);
            let lacking = match result {
                Ok(AnswerBody::Mended(MendedAnswer { skipped })) => skipped,
                Err(Refusal::NoSpace | Refusal::Busy) => return false,
                other => panic!("{other:?}"),
            };
            if lacking.is_empty() {
                let all = entries.iter().filter(|entry| entry.sum.is_some()).count() as u64;
                let data = u64::from(with_data.count_ones());
                self.score.with_data += data;
                self.score.shared += all - data;
                return true;
            }
            assert_eq!(with_data, 0, "what was sent is not lacked");
            for (at, entry) in entries.iter().enumerate() {
                if lacking.contains(&entry.block) {
                    with_data |= 1 << at;
                    payload.extend(self.source.read(state.to, entry.block.0).expect("the source is whole"));
                }
            }
        }
    }

    /// All that was listed is there: is the chunk whole, or has a write come with a newer number, so that there is more?
    fn whole(&mut self, number: SnapshotId, born: SnapshotId) -> bool {
        let body = RequestBody::Whole(WholeRequest {
            chunk: CHUNK,
            version: self.version,
            number,
            born,
        });
        match self.target.ask_with(SnapshotId::HEAD, body, &[]).0 {
            Ok(AnswerBody::Done) => true,
            Err(Refusal::Busy) => false,
            other => panic!("{other:?}"),
        }
    }

    /// Both have the same for each snapshot, and use the same number of slots for it.
    fn compare(&mut self) {
        self.target.fence(false);
        self.source.fence(false);
        let (source, target) = (self.source.states(), self.target.states());
        assert!(target.states.iter().all(|state| !state.open));
        assert_eq!(target.number, source.number);
        // A state that the source has trimmed alone may be there still.
        for state in &source.states {
            assert!(target.states.contains(state), "{state:?} is not there");
        }
        let more: Vec<StateInfo> = target
            .states
            .iter()
            .filter(|state| !source.states.contains(state))
            .copied()
            .collect();
        for at in (0..=self.number.0 + 1).map(SnapshotId) {
            if more.iter().any(|state| state.above < at && at <= state.to) {
                continue;
            }
            for block in USED {
                let right = self.source.read(at, block);
                assert_eq!(self.target.read(at, block), right, "block {block} of snapshot {at}");
                self.score.compared += 1;
                self.score.unborn += u64::from(at > SnapshotId::HEAD && at <= source.born);
            }
            if self.source.read(at, 0).is_ok() {
                assert_eq!(self.target.entries(at), self.source.entries(at), "snapshot {at}");
            }
        }
        self.compare_changes();
        let live: Vec<SnapshotId> = source.states.iter().map(|state| state.to).collect();
        self.target.keep(&live);
        self.source.rig.run();
        self.target.rig.run();
        #[cfg(feature = "planted")]
        {
            self.source.rig.store.check();
            self.target.rig.store.check();
        }
        // What a write replaced that was given up is stored once more where the head gets it back.
        let more = self.target.slots() - self.source.slots();
        assert!(more <= self.score.given_up, "{more} slots are not shared");
        self.score.stored_again += more;
        self.compare_figures(&live, more);
    }

    /// What is counted of both is what their views hold, entry by entry, and every slot is somebody's.
    fn compare_figures(&mut self, live: &[SnapshotId], stored_again: u64) {
        let (source, target) = (self.source.figures(live), self.target.figures(live));
        let mut seen: BTreeMap<(u16, Version), Vec<Option<SnapshotId>>> = BTreeMap::new();
        let views = live.iter().copied().map(Some).chain([None]);
        for view in views {
            for (block, change) in self.source.entries(view.unwrap_or(SnapshotId::HEAD)) {
                if change.sum.is_some() {
                    seen.entry((block, change.version)).or_default().push(view);
                }
            }
        }
        let mut unique: BTreeMap<SnapshotId, u64> = BTreeMap::new();
        for views in seen.values() {
            if let [Some(only)] = views[..] {
                *unique.entry(only).or_default() += 1;
            }
        }
        let used = seen.values().filter(|views| views.contains(&None)).count() as u64;
        let unique: Vec<(SnapshotId, u64)> = unique.into_iter().collect();
        assert_eq!((source.used, source.held), (used, seen.len() as u64));
        assert_eq!(source.unique, unique);
        assert_eq!((target.used, target.held), (used, seen.len() as u64 + stored_again));
        for (side, figures) in [(&mut self.source, &source), (&mut self.target, &target)] {
            assert_eq!(
                (figures.held, figures.freeing),
                (side.slots(), 0),
                "no slot is nobody's"
            );
        }
        if stored_again == 0 {
            assert_eq!(target, source);
        }
    }

    /// Both say the same of what was changed between two snapshots, or since one: which entries have another version.
    fn compare_changes(&mut self) {
        for since in (1..=self.number.0).map(SnapshotId) {
            for at in (since.0 + 1..=self.number.0 + 1)
                .map(SnapshotId)
                .chain([SnapshotId::HEAD])
            {
                let (Ok(told), Ok(same)) = (self.source.differ(since, at), self.target.differ(since, at)) else {
                    continue;
                };
                assert_eq!(same, told, "from {since} to {at}");
                let (older, newer) = (self.source.entries(since), self.source.entries(at));
                for block in USED {
                    let version = |entries: &BTreeMap<u16, Change>| entries.get(&block).map(|entry| entry.version);
                    let changed = told.changed[usize::from(block) / 64] >> (block % 64) & 1 == 1;
                    let differ = version(&older) != version(&newer);
                    assert_eq!(changed, differ, "block {block} from {since} to {at}");
                    self.score.changed += u64::from(changed);
                }
            }
        }
    }

    /// All snapshots go: only the chunk itself is left.
    fn end(&mut self) {
        self.source.keep(&[]);
        self.target.keep(&[]);
        self.source.rig.run();
        self.target.rig.run();
        let data = self.source.entries(SnapshotId::HEAD);
        let data = data.values().filter(|entry| entry.sum.is_some()).count() as u64;
        assert_eq!((self.source.slots(), self.target.slots()), (data, data));
        is_clean(&self.target.rig.disk.view, true);
    }
}

fn play(seed: u64) -> Score {
    let mut game = Game::new(seed);
    if game.rng.chance(3) {
        // Made after some snapshots: older ones have nothing of it.
        game.number = SnapshotId(2);
    }
    for _ in 0..4 {
        for _ in 0..game.rng.below(16) {
            game.write();
        }
        if game.rng.chance(3) {
            game.trim();
        }
        game.leave();
        game.bring();
        game.compare();
        game.maybe_crash(2);
    }
    game.end();
    game.score
}

#[test]
fn a_member_that_comes_back_gets_what_it_lacks_and_shares_what_it_has() {
    let first = std::env::var("AMITA_STORE_FIRST").map_or(0, |text| text.parse().expect("a number"));
    let seeds = std::env::var("AMITA_STORE_SEEDS").map_or(150, |text| text.parse().expect("a number"));
    let mut score = Score::default();
    for seed in first..first + seeds {
        let one = match std::panic::catch_unwind(|| play(seed)) {
            Ok(one) => one,
            Err(cause) => {
                eprintln!("seed {seed}: AMITA_STORE_FIRST={seed} AMITA_STORE_SEEDS=1 plays it alone");
                std::panic::resume_unwind(cause)
            }
        };
        score.framed += one.framed;
        score.put += one.put;
        score.shared += one.shared;
        score.with_data += one.with_data;
        score.dropped += one.dropped;
        score.crashes += one.crashes;
        score.compared += one.compared;
        score.changed += one.changed;
        score.unborn += one.unborn;
        score.back += one.back;
        score.given_up += one.given_up;
        score.stored_again += one.stored_again;
    }
    println!("{score:#?}");
    if seeds >= 150 {
        assert!(score.framed > 400 && score.put > 1_000 && score.shared > 500 && score.with_data > 500);
        assert!(score.dropped > 50 && score.crashes > 300 && score.back > 20 && score.given_up > 200);
        assert!(score.compared > 20_000 && score.unborn > 100 && score.changed > 5_000);
    }
}

/// The chunk, joined and incomplete, with one state that the source has at 1 and the target lacks.
fn incomplete() -> Game {
    let mut game = Game::new(1);
    for _ in 0..6 {
        game.write();
    }
    game.leave();
    while game.source.states().states.is_empty() || game.source.states() == game.target.states() {
        game.write();
    }
    let at = game.version;
    let number = game.number_of();
    let body = RequestBody::Join(JoinRequest { chunk: CHUNK, at });
    assert!(matches!(
        game.target.ask_with(number, body, &[]).0,
        Ok(AnswerBody::Joined(joined)) if joined.incomplete.is_some()
    ));
    game.joined = true;
    game.mend_head();
    game
}

#[test]
fn what_is_open_is_not_served_and_not_whole() {
    let mut game = incomplete();
    let state = *game.source.states().states.last().expect("one");
    let StatesAnswer { number, born, .. } = game.source.states();
    let frame = RequestBody::Frame(FrameRequest {
        chunk: CHUNK,
        above: state.above,
        to: state.to,
        version: state.version,
    });
    let mut plan = game.plan();
    plan.todo.clear();
    while game.step(&mut plan).is_some() {}
    // A frame for what no change has carried yet would miss changes that are on their way.
    let early = RequestBody::Frame(FrameRequest {
        chunk: CHUNK,
        above: SnapshotId(game.number.0 + 1),
        to: SnapshotId(game.number.0 + 2),
        version: state.version,
    });
    assert_eq!(game.target.ask_with(SnapshotId::HEAD, early, &[]).0, Err(Refusal::Busy));
    assert_eq!(game.target.ask(SnapshotId::HEAD, frame.clone()), AnswerBody::Done);
    assert!(!game.whole(number, born));
    // Again, and after a crash: it is there.
    assert_eq!(game.target.ask(SnapshotId::HEAD, frame), AnswerBody::Done);
    game.target.crash(&mut Rng(1));
    assert!(
        game.target
            .states()
            .states
            .iter()
            .any(|own| own.open && own.to == state.to)
    );
    assert!(!game.whole(number, born));
    // Nor at a number of which more states may be.
    assert!(!game.whole(SnapshotId(number.0 - 1), born));
    let over = RequestBody::Frame(FrameRequest {
        chunk: CHUNK,
        above: SnapshotId(state.to.0 - 1),
        to: state.to,
        version: game.version,
    });
    let wrong = Err(Refusal::Invalid {
        what: Problem::Snapshot,
    });
    assert_eq!(game.target.ask_with(SnapshotId::HEAD, over, &[]).0, wrong);
}

#[test]
fn a_state_is_only_put_into_where_it_is_open() {
    let mut game = incomplete();
    let state = *game.source.states().states.last().expect("one");
    let wrong = Err(Refusal::Invalid {
        what: Problem::Snapshot,
    });
    let put = |to, version| {
        RequestBody::Put(PutRequest {
            chunk: CHUNK,
            to,
            with_data: 0,
            version,
            entries: Vec::new(),
        })
    };
    let close = |to, version| {
        RequestBody::Close(CloseRequest {
            chunk: CHUNK,
            to,
            version,
        })
    };
    let none = SnapshotId(1000);
    for body in [put(none, state.version), close(none, state.version)] {
        assert_eq!(game.target.ask_with(SnapshotId::HEAD, body, &[]).0, wrong);
    }
    // And of a chunk that is whole nothing is.
    let mut whole = Side::new(3, false);
    let written = whole.asker.write(
        &mut whole.rig,
        0,
        0,
        &[1; BLOCK],
        crate::common::version(1, 1),
        Version::NONE,
    );
    assert_eq!(written, Ok(AnswerBody::Done));
    for body in [put(SnapshotId(1), state.version), close(SnapshotId(1), state.version)] {
        assert_eq!(whole.ask_with(SnapshotId::HEAD, body, &[]).0, wrong);
    }
}
