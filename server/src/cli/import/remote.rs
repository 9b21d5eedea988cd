//! Import over HTTP: groups as transactions, over several connections at once.
//!
//! The first thread has the connection that made the table; each other one, if there is a thread for it, asks for its own
//! before it writes, and ends where there is none for it: what is cut in the middle of a write is no longer certain.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Builder, Scope};

use http::StatusCode;
use parking_lot::{Condvar, Mutex};

use super::{CliError, Count, Group, Mode, Sink};
use crate::cli::no_thread;
use crate::client::{Client, ClientError};

/// Threads that write groups, each over a connection. They end when the pool is dropped.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Something to write, an end, or room.
    changed: Condvar,
    /// Groups that wait at once, so that no connection does.
    waiting: usize,
}

#[derive(Default)]
struct State {
    groups: VecDeque<Group>,
    /// Groups that are being written.
    under_way: usize,
    count: Count,
    /// The first failure, after which nothing more is written.
    failed: Option<CliError>,
    ended: bool,
}

impl Pool {
    pub(super) fn start<'s>(scope: &'s Scope<'s, '_>, connections: usize, work: Work<'s>) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            waiting: connections,
        });
        for number in 0..connections {
            let writes = Arc::clone(&shared);
            let write = move || match number {
                0 => work.run(&writes),
                _ => work.run_apart(&writes),
            };
            if let Err(error) = Builder::new().spawn_scoped(scope, write) {
                // Those that there are do without it.
                if number == 0 {
                    shared.state.lock().failed = Some(no_thread(error));
                }
                break;
            }
        }
        Self { shared }
    }
}

impl Sink for Pool {
    fn write(&mut self, group: Group) -> Result<(), CliError> {
        let Shared { state, changed, waiting } = &*self.shared;
        let mut state = state.lock();
        changed.wait_while(&mut state, |state| {
            state.failed.is_none() && state.groups.len() >= *waiting
        });
        if let Some(error) = state.failed.take() {
            state.ended = true;
            return Err(error);
        }
        state.groups.push_back(group);
        changed.notify_all();
        Ok(())
    }

    fn settle(&mut self) -> Result<(), CliError> {
        let Shared { state, changed, .. } = &*self.shared;
        let mut state = state.lock();
        changed.wait_while(&mut state, |state| {
            state.under_way > 0
                || !state.ended && state.failed.is_none() && !state.groups.is_empty()
        });
        let failed = state.failed.take();
        // Nobody begins with a group that is left.
        state.ended |= failed.is_some();
        failed.map_or(Ok(()), Err)
    }

    fn count(&self) -> Count {
        self.shared.state.lock().count
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

/// Deletes a table that was made for an import of which nothing was written, unless somebody else has
/// written into it. That this may fail is less to know than why the import did.
pub(super) fn remove_unused(client: &Client, table: &str) {
    let first = client.page(table, None, None, Some(1), None);
    if first.is_ok_and(|page| page.entities.is_empty() && page.next.is_none()) {
        let _ = client.delete_table(table);
    }
}

/// What each thread does with its groups.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) client: &'a Client,
    pub(super) table: &'a str,
    pub(super) mode: Mode,
    /// What errors call the input.
    pub(super) source: &'a str,
}

impl Work<'_> {
    fn run(self, shared: &Shared) {
        while let Some(group) = shared.next() {
            self.write(&group, shared);
        }
    }

    /// The same over a connection of its own, as soon as there is something to write, if there is one for it.
    fn run_apart(self, shared: &Shared) {
        let Some(group) = shared.next() else { return };
        let client = self.client.apart();
        if client.is_let_in() {
            let work = Work { client: &client, ..self };
            work.write(&group, shared);
            work.run(shared);
        } else {
            shared.give_back(group);
        }
    }

    fn write(&self, group: &Group, shared: &Shared) {
        let entities = group.iter().map(|line| &line.entity);
        let mut written = 0;
        let outcome = self.client.write(self.table, self.mode, entities, |more| written += more);
        let mut state = shared.state.lock();
        state.under_way -= 1;
        state.count.written += written as u64;
        if let Err(error) = outcome {
            if !is_undone(&error) {
                state.count.unknown += (group.len() - written) as u64;
            }
            state.failed.get_or_insert_with(|| self.place(error, group));
        }
        shared.changed.notify_all();
    }

    /// The error with the line that it is about.
    fn place(&self, error: ClientError, group: &Group) -> CliError {
        match (&error, error.index().and_then(|index| group.get(index))) {
            (ClientError::Refused { code, message, .. }, Some(line)) => {
                super::at_line(self.source, line, &format!("{code}: {message}"))
            }
            _ => error.into(),
        }
    }
}

/// Whether of what was asked nothing has been done, for certain.
fn is_undone(error: &ClientError) -> bool {
    match error {
        ClientError::Request { .. } => true,
        // A server that fails may have stored it before; not one that is busy.
        ClientError::Refused { status, .. } => {
            !status.is_server_error() || *status == StatusCode::SERVICE_UNAVAILABLE
        }
        _ => false,
    }
}

impl Shared {
    /// The next group to write; none at the end, or after a failure.
    fn next(&self) -> Option<Group> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| {
            !state.ended && state.failed.is_none() && state.groups.is_empty()
        });
        if state.failed.is_some() || state.ended {
            return None;
        }
        let group = state.groups.pop_front()?;
        state.under_way += 1;
        self.changed.notify_all();
        Some(group)
    }

    /// Leaves a group of which nothing was written to another thread.
    fn give_back(&self, group: Group) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        state.groups.push_front(group);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is counted after a failure stays so: groups that waited are not written.
    #[test]
    fn after_a_failure_no_group_begins() {
        let state = State {
            groups: [Group::new(), Group::new()].into(),
            failed: Some("refused".into()),
            ..State::default()
        };
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), waiting: 2 };
        let mut pool = Pool { shared: Arc::new(shared) };
        assert_eq!(pool.settle().unwrap_err().to_string(), "refused");
        assert!(pool.shared.next().is_none());
        assert!(pool.settle().is_ok());
    }
}
