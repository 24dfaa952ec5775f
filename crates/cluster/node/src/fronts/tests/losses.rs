//! Sessions whose volume was lost, and who counts as using it.

use super::*;
use crate::directory::OpeningId;

const VOLUME: VolumeId = VolumeId(7);

/// Has the volume open until it ends, as an NBD session has.
struct User;

impl Front for User {
    fn received(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn event(&mut self, _: Time, _: Event, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, service: &mut dyn StorageService) {
        service.close(FrontId(1), VOLUME.into());
    }
}

/// What fronts have asked for, but for what they close; and what they close.
fn asked(rig: &Rig) -> (usize, Vec<OpeningId>) {
    let requests = &rig.fronts.requests.queue;
    let closes = requests.iter().filter_map(|request| match request {
        FrontRequest::Close { opening } => Some(*opening),
        _ => None,
    });
    let closed: Vec<OpeningId> = closes.collect();
    (requests.len() - closed.len(), closed)
}

/// The volume was lost and is open again, for somebody else: were the word of the first one's end to come now, that one would be counted no more, and the
/// volume be taken away under him.
#[test]
fn who_was_told_of_a_loss_closes_nothing_when_he_ends() {
    for (lost, closes) in [(None, 1), (Some(VolumeId(8)), 1), (Some(VOLUME), 0)] {
        let mut rig = Rig::new();
        let front = rig.fronts.attach(|_| Box::new(User));
        rig.fronts.requests.opened(front, VOLUME, OpeningId(5));
        if let Some(lost) = lost {
            rig.fronts.lost(&mut rig.driver, lost, "another gateway has it");
        }
        rig.fronts.requests.list(front, 1, &Who::Local);
        rig.fronts.detach(&mut rig.driver, front);
        let closed = vec![OpeningId(5); closes];
        assert_eq!(asked(&rig), (1, closed), "{lost:?}: what was asked for before stays");
    }
}

/// Programs have a volume open more than once, and open it again when it was lost. Each opening is closed once, by its own number.
#[test]
fn an_opening_is_closed_once_by_its_own_number() {
    let mut rig = Rig::new();
    let front = rig.fronts.attach(|_| Box::new(User));
    let requests = &mut rig.fronts.requests;
    requests.opened(front, VOLUME, OpeningId(1));
    requests.opened(front, VOLUME, OpeningId(2));
    requests.opened(front, VolumeId(8), OpeningId(3));
    requests.close(front, VOLUME.into());
    let (_, first) = asked(&rig);
    assert_eq!(first.len(), 1);
    rig.fronts.lost(&mut rig.driver, VOLUME, "another gateway has it");
    let requests = &mut rig.fronts.requests;
    requests.close(front, VOLUME.into());
    requests.opened(front, VOLUME, OpeningId(4));
    rig.fronts.detach(&mut rig.driver, front);
    let (_, mut closed) = asked(&rig);
    closed.sort_unstable();
    assert_eq!(closed, [first[0], OpeningId(3), OpeningId(4)]);
}
