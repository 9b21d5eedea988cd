//! What Windows does in its own way; `unix.rs` has the same items.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown};
use windows_sys::Win32::Foundation::STATUS_CONTROL_C_EXIT;
use windows_sys::Win32::Storage::FileSystem::{FILE_ADD_SUBDIRECTORY, FILE_FLAG_BACKUP_SEMANTICS};

/// What tells the process to stop, from when it is made: Ctrl-C, Ctrl-Break, a console that is closed, a user who logs
/// off and a machine that is shut down. The last three leave it some seconds.
pub(super) struct StopSignals {
    interrupt: CtrlC,
    interrupt_group: CtrlBreak,
    close: CtrlClose,
    log_off: CtrlLogoff,
    shut_down: CtrlShutdown,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: windows::ctrl_c()?,
            interrupt_group: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            log_off: windows::ctrl_logoff()?,
            shut_down: windows::ctrl_shutdown()?,
        })
    }

    /// Waits for the next, also one that came before; the exit code of a process that ends by it.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.interrupt_group.recv() => {}
            _ = self.close.recv() => {}
            _ = self.log_off.recv() => {}
            _ = self.shut_down.recv() => {}
        }
        STATUS_CONTROL_C_EXIT
    }
}

/// Handles have no such limit.
pub(super) fn check_descriptors() -> io::Result<()> {
    Ok(())
}

/// Files have no limits of their own.
pub(super) fn survive_limits_of_files() -> io::Result<()> {
    Ok(())
}

/// There is no limit.
pub(super) fn raise_open_files() -> Option<u64> {
    None
}

/// A new file is for those whom its directory says.
pub(super) fn create_as(_options: &mut OpenOptions, _other: &Metadata) {}

/// Opens a directory to sync it.
pub(super) fn open_dir(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_ADD_SUBDIRECTORY).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    options.open(dir)
}

/// What is no Unicode.
#[cfg(test)]
pub(super) fn no_unicode() -> std::ffi::OsString {
    std::os::windows::ffi::OsStringExt::from_wide(&[0xd800])
}
