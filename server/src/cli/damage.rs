//! What a person can do about damage: the last line of an error that tells of it.

use std::error::Error;
use std::iter::successors;

use tablestone::Corruption;

use super::{CliError, with_causes};

/// All the damage that was found in a directory: of each file the first, in a line.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub(super) struct Damaged(pub(super) Vec<Corruption>);

fn lines(damage: &[Corruption]) -> String {
    damage.iter().map(Corruption::to_string).collect::<Vec<_>>().join("\n")
}

/// The error, with what can be done about it if it is about damage.
pub(super) fn advised(error: CliError, advice: &str) -> CliError {
    if is_damage(&*error) { format!("{}\n{advice}", with_causes(&*error)).into() } else { error }
}

/// Whether a database does not hold what was written to it, or the device does not give it back.
fn is_damage(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |error| (*error).source()).any(|error| {
        let is_of_engine = match error.downcast_ref::<tablestone::Error>() {
            Some(tablestone::Error::Corruption(_)) => true,
            Some(tablestone::Error::Io(io)) => io.action == "read",
            _ => false,
        };
        is_of_engine || error.is::<Damaged>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::OpenError;

    #[test]
    fn only_damage_has_advice() {
        let in_file = || Corruption {
            file: "data/000001.sst".into(),
            offset: 7,
            expected: "this".into(),
            found: "that".into(),
        };
        let corruption = || tablestone::Error::Corruption(Box::new(in_file()));
        let damage = "\"data/000001.sst\" is damaged at offset 7: expected this, found that";
        let advised = |error: CliError| advised(error, "do this").to_string();
        assert_eq!(advised(corruption().into()), format!("{damage}\ndo this"));
        let catalog = OpenError::from(corruption());
        let expected = format!("cannot read the catalog of tables: {damage}\ndo this");
        assert_eq!(advised(catalog.into()), expected);
        let both = Damaged(vec![in_file(), in_file()]);
        assert_eq!(advised(both.into()), format!("{damage}\n{damage}\ndo this"));
        let io = |action, source| {
            let io = tablestone::IoError { action, path: "data/000001.sst".into(), source };
            advised(tablestone::Error::Io(Box::new(io)).into())
        };
        let unreadable = io("read", std::io::Error::other("no such sector"));
        assert_eq!(unreadable, "cannot read \"data/000001.sst\": no such sector\ndo this");
        let full = io("write to", std::io::ErrorKind::StorageFull.into());
        assert!(!full.contains("do this"), "{full}");
        let closed = tablestone::Error::Closed;
        assert_eq!(advised(closed.into()), "the database is closed");
    }
}
