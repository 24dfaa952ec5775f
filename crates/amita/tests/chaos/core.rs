//! One core of a process that stands still, while the process's other threads go on: what a host does whose hypervisor
//! takes one processor away, or a kernel that never schedules one thread. SIGSTOP stops all threads; a tracer stops one.

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A core that stands still until this is dropped. A process that is killed meanwhile ends as any other.
pub struct StoppedCore {
    go_on: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

/// The first thread of the process whose name says that it is a core (`reactor::core` names them).
fn core_of(process: u32) -> Option<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut cores: Vec<i32> = tasks
        .filter_map(|task| {
            let name = task.ok()?.file_name().into_string().ok()?;
            let comm = std::fs::read_to_string(format!("/proc/{process}/task/{name}/comm")).ok()?;
            comm.starts_with("core-").then(|| name.parse().ok())?
        })
        .collect();
    cores.sort_unstable();
    cores.first().copied().map(Pid::from_raw)
}

impl StoppedCore {
    /// Stops a core of the process. Nothing, where the process has none (any more) or tracing is not allowed.
    pub fn stop(process: u32) -> Option<StoppedCore> {
        let core = core_of(process)?;
        let (go_on, waits) = channel();
        let (stands, hears) = channel();
        // Whoever has attached is the one who must detach: a thread of its own.
        let tracer = std::thread::Builder::new()
            .name("tracer".to_owned())
            .spawn(move || hold(core, &stands, &waits))
            .ok()?;
        let stopped = StoppedCore {
            go_on: Some(go_on),
            tracer: Some(tracer),
        };
        hears.recv().ok()?;
        Some(stopped)
    }
}

/// Holds the thread until nobody wants that any more. Says when it stands; says nothing where it does not.
fn hold(core: Pid, stands: &Sender<()>, waits: &Receiver<()>) {
    let attached = ptrace::seize(core, ptrace::Options::empty()).and_then(|()| ptrace::interrupt(core));
    if attached.is_err() {
        return;
    }
    match waitpid(core, Some(WaitPidFlag::__WALL)) {
        Ok(WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..) | WaitStatus::PtraceSyscall(_)) => {}
        // It has ended meanwhile.
        _ => return,
    }
    let _ = stands.send(());
    let _ = waits.recv();
    // It may have been killed.
    let _ = ptrace::detach(core, None);
}

impl Drop for StoppedCore {
    fn drop(&mut self) {
        drop(self.go_on.take());
        if let Some(tracer) = self.tracer.take() {
            let _ = tracer.join();
        }
    }
}
