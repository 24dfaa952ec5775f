use super::super::engine::Whose;
use super::super::shares::{Good, Holder, Shares};
use super::*;
use crate::call::LeaseId;
use std::net::{IpAddr, Ipv4Addr};
use tokio::sync::oneshot;

fn holder() -> Arc<Holder> {
    Shares::new().holder(None, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn renewal(holder: &Arc<Holder>) -> EngineRequest {
    let whose = Whose {
        holder: Arc::clone(holder),
        also_others: false,
    };
    EngineRequest::KeepAlive(LeaseId(1), whose, oneshot::channel().0)
}

fn stream(holder: &Arc<Holder>) -> Hold {
    Hold::Stream(Arc::new(holder.take(Good::Streams, 1).expect("there is one")))
}

#[test]
fn however_much_waits_renewals_are_taken_and_come_first() {
    let (queue, holder) = (Queue::default(), holder());
    for _ in 0..Good::Streams.most() {
        let question = EngineRequest::Leases(oneshot::channel().0);
        assert!(queue.put(question, stream(&holder)).is_ok());
        queue.look();
    }
    assert!(holder.take(Good::Streams, 1).is_none(), "more cannot wait");
    let other = self::holder();
    assert!(queue.put(renewal(&other), stream(&other)).is_ok());
    assert!(queue.wait(None));
    assert!(queue.renewal().is_some() && queue.renewal().is_none());
    assert!(queue.other().is_some());
}

#[test]
fn what_waits_keeps_its_place_also_where_nobody_waits_for_it() {
    let (queue, holder) = (Queue::default(), holder());
    assert!(queue.put(renewal(&holder), stream(&holder)).is_ok());
    assert_eq!(holder.held(Good::Streams), 1);
    assert!(queue.renewal().is_some());
    assert_eq!(holder.held(Good::Streams), 0);
}

#[test]
fn who_waits_hears_that_the_engine_has_ended() {
    let (queue, holder) = (Queue::default(), holder());
    let (sender, mut answer) = oneshot::channel();
    assert!(queue.put(EngineRequest::Leases(sender), stream(&holder)).is_ok());
    queue.end();
    assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    assert!(queue.put(renewal(&holder), stream(&holder)).is_err());
    assert_eq!(holder.held(Good::Streams), 0);
    queue.stop();
    assert!(!queue.wait(None));
}
