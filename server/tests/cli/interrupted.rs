//! What a command does, and leaves behind, that is told to stop.

use std::sync::mpsc::{self, Receiver};

use crate::processes::{self, Watched};
use crate::support::{Shell, server_that};

/// Where the server is whose table goes on for ever, and when it is asked for more.
fn endless() -> (String, Receiver<()>) {
    const PAGE: &str = "200 OK\r\nx-ms-continuation-NextPartitionKey: 1!4!cQ--";
    const ROW: &str = r#"{"value":[{"PartitionKey":"p","RowKey":"r"}]}"#;
    let (began, has_begun) = mpsc::channel();
    let (url, _) = server_that(move |line| {
        if line.contains("NextPartitionKey") {
            began.send(()).unwrap();
            loop {
                std::thread::park();
            }
        }
        Some((PAGE, ROW))
    });
    (url, has_begun)
}

/// An export's file is not there before it is whole, nor is what there is of it by then; what had the name stays.
#[test]
fn an_export_that_is_told_to_stop_leaves_nothing_behind() {
    let (url, has_begun) = endless();
    let shell = Shell::new();
    let files = || {
        let files = std::fs::read_dir(shell.path("")).unwrap();
        let mut names: Vec<_> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for (stop, code) in processes::STOPS {
        for name in ["out.csv", "out.jsonl", "out.jsonl.zst"] {
            shell.write(name, "what was there");
            let select = ["--select", "PartitionKey,RowKey"];
            let export = ["export", "--table", "abc", "--url", &url, "-o", name];
            let mut child = shell.command(&[&export[..], &select].concat()).spawn().unwrap();
            let _watched = Watched::new(&child);
            has_begun.recv().unwrap();
            assert!(files().iter().any(|name| name.ends_with(".partial")), "{:?}", files());
            processes::tell(&child, stop);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
            assert_eq!(files(), [name]);
            assert_eq!(shell.read(name), "what was there");
            std::fs::remove_file(shell.path(name)).unwrap();
        }
    }
}

/// A pipe is opened once somebody reads it: until then, too, the command ends as it is told. Linux: `/proc` says from
/// when on it hears of signals itself.
#[cfg(target_os = "linux")]
#[test]
fn an_export_into_a_pipe_that_nobody_reads_can_be_told_to_stop() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let shell = Shell::new();
    shell.write("rows.jsonl", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    shell.out(&["import", "rows.jsonl", "--table", "abc"]);
    mknodat(CWD, shell.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (stop, code) in processes::STOPS {
        let export = ["export", "--table", "abc", "-o", "pipe"];
        let mut child = shell.command(&export).spawn().unwrap();
        let _watched = Watched::new(&child);
        while !processes::hears(&child, stop) {
            std::thread::yield_now();
        }
        processes::tell(&child, stop);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

/// One that was begun to outlive its terminal (`nohup`) goes on without.
#[cfg(target_os = "linux")]
#[test]
fn an_export_ends_with_its_terminal() {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = own.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let is_ignored = u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1;
    let (url, has_begun) = endless();
    let shell = Shell::new();
    let select = ["--select", "PartitionKey,RowKey"];
    let export = ["export", "--table", "abc", "--url", &url, "-o", "out.jsonl"];
    let export = [&export[..], &select].concat();
    let (ends, goes_on) = (shell.command(&export), shell.detached(&export));
    for (mut command, code) in [(ends, if is_ignored { 143 } else { 129 }), (goes_on, 143)] {
        let mut child = command.spawn().unwrap();
        let _watched = Watched::new(&child);
        has_begun.recv().unwrap();
        processes::tell(&child, processes::HANG_UP);
        if code == 143 {
            processes::tell_to_stop(&child);
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(std::fs::read_dir(shell.path("")).unwrap().count(), 0);
    }
}
