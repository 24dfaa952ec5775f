//! Sessions whose volume was lost, and who counts as using it.

use super::*;
use amita_frontend::Source;

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

/// The volume was lost and is open again, for somebody else: were the word of the first one's end to come now, that one would be counted no more, and the
/// volume be taken away under him.
#[test]
fn who_was_told_of_a_loss_closes_nothing_when_he_ends() {
    for (lost, closes) in [(None, 1), (Some(VolumeId(8)), 1), (Some(VOLUME), 0)] {
        let mut rig = Rig::new();
        let front = rig.fronts.attach(|_| Box::new(User));
        let source: Source = VOLUME.into();
        *rig.fronts.usage(front).expect("it is there") = Some(Usage {
            who: Who::Local,
            open: Some((source, false)),
            unseen: None,
            lost: None,
        });
        if let Some(lost) = lost {
            rig.fronts.lost(&mut rig.driver, lost, "another gateway has it");
        }
        rig.fronts.requests.list(front, 1, &Who::Local);
        rig.fronts.detach(&mut rig.driver, front);
        let requests = &rig.fronts.requests.queue;
        let is_close = |request: &&FrontRequest| matches!(request, FrontRequest::Close { volume: VOLUME });
        assert_eq!(requests.iter().filter(is_close).count(), closes, "{lost:?}");
        assert_eq!(requests.len(), 1 + closes, "what was asked for before stays");
    }
}
