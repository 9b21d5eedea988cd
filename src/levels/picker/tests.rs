//! Which tasks may not run at once.

use super::*;

/// R-E08: two that rewrite keys of one level at once would bring back, or lose, what they have in common. Both ends of
/// what a task claims belong to it.
#[test]
fn r_e08_tasks_that_share_keys_of_a_level_conflict() {
    let level = |number| Level::new(number).unwrap();
    let claim = |(from, to), (first, last): (u8, u8)| Claim {
        levels: (level(from), level(to)),
        first: [first].into(),
        last: [last].into(),
        files: Vec::new(),
    };
    let one = claim((1, 2), (10, 20));
    for (levels, keys, conflicts) in [
        ((1, 2), (10, 20), true),
        ((0, 4), (0, 99), true),
        ((0, 1), (0, 10), true),
        ((2, 3), (20, 30), true),
        ((1, 1), (15, 15), true),
        ((1, 2), (0, 9), false),
        ((1, 2), (21, 30), false),
        ((0, 0), (10, 20), false),
        ((3, 4), (10, 20), false),
    ] {
        let other = claim(levels, keys);
        assert_eq!(one.conflicts(&other), conflicts, "{levels:?}, {keys:?}");
        assert_eq!(other.conflicts(&one), conflicts, "{levels:?}, {keys:?}");
    }
}
