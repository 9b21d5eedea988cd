//! Signals, and what `/proc` says.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

/// What a process can be told to stop by, and the exit code of a command that removes its file then.
pub(crate) const STOPS: [(Stop, i32); 2] = [(Stop(Signal::INT), 130), (Stop(Signal::TERM), 143)];

/// How a process is told that its terminal is gone.
pub(crate) const HANG_UP: Stop = Stop(Signal::HUP);

#[derive(Clone, Copy)]
pub(crate) struct Stop(Signal);

/// Has the command's process hear of [`tell_to_stop`] alone, without those of the test.
pub(crate) fn apart(_command: &mut Command) {}

/// Leaves a command's process no environment.
pub(crate) fn without_environment(command: &mut Command) {
    command.env_clear();
}

/// Tells a process to stop.
pub(crate) fn tell_to_stop(child: &Child) {
    // Not an interrupt: a shell has what it runs in the background ignore those.
    tell(child, Stop(Signal::TERM));
}

pub(crate) fn tell(child: &Child, Stop(signal): Stop) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether a process does something of its own when it is told so.
pub(crate) fn hears(child: &Child, Stop(signal): Stop) -> bool {
    let caught = status(child, "SigCgt:");
    let caught = u64::from_str_radix(&caught, 16).expect("a number");
    caught >> (signal.as_raw() - 1) & 1 == 1
}

/// Whether it ended for it was told to, and did nothing about that.
pub(crate) fn was_stopped(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::TERM.as_raw())
}

/// Ends a process at once, if it is still there.
pub(crate) fn end(id: u32) {
    if let Some(id) = Pid::from_raw(id.cast_signed()) {
        let _ = kill_process(id, Signal::KILL);
    }
}

/// The memory that a process has, in bytes.
pub(crate) fn resident(child: &Child) -> u64 {
    let kibibytes = status(child, "VmRSS:");
    kibibytes.trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// What the system says of a running process.
fn status(child: &Child, what: &str) -> String {
    let status = format!("/proc/{}/status", child.id());
    let status = std::fs::read_to_string(status).expect("a running process");
    status.lines().find_map(|line| line.strip_prefix(what)).expect(what).trim().to_owned()
}
