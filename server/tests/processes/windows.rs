//! Events of a console, which the tests and the processes have in common.

use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use windows_sys::Win32::Foundation::STATUS_CONTROL_C_EXIT;
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

/// What a process can be told to stop by, and the exit code of a command that removes its file then. Ctrl-C cannot be
/// sent to one process alone.
pub(crate) const STOPS: [(Stop, i32); 1] = [(Stop(CTRL_BREAK_EVENT), STATUS_CONTROL_C_EXIT)];

#[derive(Clone, Copy)]
pub(crate) struct Stop(u32);

/// Has the command's process hear of [`tell_to_stop`] alone, without those of the test.
pub(crate) fn apart(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Leaves a command's process no environment but what the system's libraries want.
pub(crate) fn without_environment(command: &mut Command) {
    command.env_clear();
    for name in ["PATH", "SystemRoot"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
}

/// Tells a process to stop that was started [apart](apart).
pub(crate) fn tell_to_stop(child: &Child) {
    tell(child, Stop(CTRL_BREAK_EVENT));
}

pub(crate) fn tell(child: &Child, Stop(event): Stop) {
    // SAFETY: the call takes numbers alone.
    assert_ne!(unsafe { GenerateConsoleCtrlEvent(event, child.id()) }, 0);
}

/// Whether it ended for it was told to, and did nothing about that.
pub(crate) fn was_stopped(status: ExitStatus) -> bool {
    status.code() == Some(STATUS_CONTROL_C_EXIT)
}

/// Ends a process at once, if it is still there.
pub(crate) fn end(id: u32) {
    let _ = Command::new("taskkill").args(["/F", "/PID", &id.to_string()]).output();
}

/// The memory that a process has, in bytes.
pub(crate) fn resident(child: &Child) -> u64 {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of_val(&counters) as u32;
    // SAFETY: the process was not waited for, so its handle is open; the counters have that size.
    let told = unsafe { K32GetProcessMemoryInfo(child.as_raw_handle(), &raw mut counters, size) };
    assert_ne!(told, 0);
    counters.WorkingSetSize as u64
}
