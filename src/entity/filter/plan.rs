//! The planner: from a filter the keys that can match, and what is left to ask of their entities.
//!
//! Invariant: an entity that passes the filter has its key in the boxes. Comparisons with keys give
//! exact boxes, other comparisons all keys; `and` intersects and `or` unites. Where that becomes
//! too much the boxes grow, they never shrink. What the boxes say exactly is not asked again.

use super::boxes::{KeyBox, KeyBoxes, MAX_INTERVALS, Rows};
use super::explain::Explain;
use super::expr::{Connective, Filter, Node, Operand, Operator};
use super::intervals::{self, Interval, Place};
use super::normal::{Simplified, Term};
use crate::key::{ALL_KEYS, KeyBounds};

/// Intervals that planning may look at. Ten thousand entities by both keys take about 400,000; a
/// filter that is made to take more is not worth the time.
const MAX_WORK: usize = 1 << 21;

impl Filter {
    /// How a query with this filter finds its entities.
    ///
    /// ```
    /// use tablestone::{Filter, Plan};
    ///
    /// let filter: Filter = "PartitionKey eq 'Sales' and RowKey ge 'S' and RowKey lt 'T' and \
    ///     LastName eq 'Smith'".parse()?;
    /// let explain = filter.explain();
    /// assert_eq!(explain.plan(), Plan::RowRange);
    /// assert_eq!(
    ///     explain.to_string(),
    ///     "row range in partition \"Sales\": RowKey >= \"S\" and < \"T\"; \
    ///      then filter: LastName eq 'Smith'"
    /// );
    /// # Ok::<(), tablestone::FilterError>(())
    /// ```
    #[must_use]
    pub fn explain(&self) -> Explain {
        self.explain_within(&ALL_KEYS, &ALL_KEYS)
    }

    /// The same for a query that is restricted to these keys.
    pub(crate) fn explain_within(&self, partition: &KeyBounds, row: &KeyBounds) -> Explain {
        let filter = self.simplified();
        let (keys, parts) = Planner { work_left: MAX_WORK }.keys(&filter);
        let residual = filter.residual(&keys, &parts);
        let within = KeyBoxes::between(partition, row);
        let boxes = match keys.boxes {
            // One box more leaves no more intervals than there are, so the set does not grow.
            Some(boxes) if !within.is_everything() => boxes.intersection(&within).0,
            Some(boxes) => boxes,
            None => within,
        };
        Explain::new(&boxes, residual)
    }
}

impl Simplified<'_> {
    /// What is left to ask of entities with keys in the boxes: of a list of conditions that must
    /// all hold, those that the boxes do not say.
    fn residual(&self, keys: &Keys<'_>, parts: &[Part]) -> Option<Filter> {
        if keys.exact {
            return None;
        }
        let left: Vec<&Part> = parts.iter().filter(|part| !part.exact).collect();
        if !matches!(self.nodes.last(), Some(Node::List(Connective::And, _)))
            || keys.coarse
            || left.is_empty()
        {
            return Some(self.to_filter());
        }
        let operands = left.len();
        let nodes = left.into_iter().flat_map(|part| self.nodes.get(part.nodes.clone()));
        let mut nodes: Vec<Node> = nodes.flatten().map(Node::to_owned).collect();
        if operands > 1 {
            nodes.push(Node::List(Connective::And, operands));
        }
        Some(Filter { nodes })
    }
}

/// The keys of entities that can pass an expression.
struct Keys<'a> {
    /// None are all keys: comparisons with properties have none, and there may be many.
    boxes: Option<KeyBoxes<'a>>,
    /// Exactly the entities with these keys pass.
    exact: bool,
    /// The boxes are larger than the keys compared with say.
    coarse: bool,
}

/// An expression that is planned.
struct Planned<'a> {
    /// Its first node.
    start: usize,
    keys: Keys<'a>,
}

impl<'a> Planned<'a> {
    fn new(start: usize, keys: Keys<'a>) -> Self {
        Self { start, keys }
    }

    fn single_box(&self) -> Option<&KeyBox<'a>> {
        self.keys.boxes.as_ref()?.single()
    }
}

/// An operand of the outermost list.
struct Part {
    nodes: std::ops::Range<usize>,
    exact: bool,
}

struct Planner {
    work_left: usize,
}

impl Planner {
    /// The keys of a simplified filter, and the parts of its outermost list.
    fn keys<'a>(mut self, filter: &Simplified<'a>) -> (Keys<'a>, Vec<Part>) {
        let mut operands: Vec<Planned<'a>> = Vec::with_capacity(filter.nodes.len());
        let mut parts = Vec::new();
        for (at, node) in filter.nodes.iter().enumerate() {
            let (connective, count) = match *node {
                Node::Constant(true) => {
                    operands.push(Planned::new(at, Keys::everything(true)));
                    continue;
                }
                Node::Constant(false) => {
                    let nothing = Keys::new(KeyBoxes::nothing(), true, false);
                    operands.push(Planned::new(at, nothing));
                    continue;
                }
                Node::Compare(term) => {
                    operands.push(Planned::new(at, term.keys()));
                    continue;
                }
                // Of a comparison with a property, which leaves all keys possible.
                Node::Not => continue,
                Node::List(connective, count) => (connective, count),
            };
            let first = operands.len().saturating_sub(count);
            let listed = operands.get(first..).unwrap_or_default();
            let start = listed.first().map_or(at, |first| first.start);
            if at + 1 == filter.nodes.len() {
                let ends = listed.iter().skip(1).map(|next| next.start).chain([at]);
                let part = |(part, end): (&Planned<'a>, usize)| Part {
                    nodes: part.start..end,
                    exact: part.keys.exact,
                };
                parts = listed.iter().zip(ends).map(part).collect();
            }
            let keys = self.united(connective, listed).unwrap_or_else(|| {
                let mut listed = operands.drain(first..).map(|operand| operand.keys);
                self.joined(connective, &mut listed, count)
            });
            operands.truncate(first);
            operands.push(Planned::new(start, keys));
        }
        let whole = operands.pop().map_or_else(|| Keys::everything(false), |whole| whole.keys);
        (whole, parts)
    }

    /// Joins the next `count`: halves, so that of a long list each is looked at as often as its length has bits.
    fn joined<'a>(
        &mut self,
        connective: Connective,
        list: &mut impl Iterator<Item = Keys<'a>>,
        count: usize,
    ) -> Keys<'a> {
        if count < 2 {
            return list.next().unwrap_or_else(|| Keys::everything(false));
        }
        let first = self.joined(connective, list, count / 2);
        let second = self.joined(connective, list, count - count / 2);
        self.join(connective, first, second)
    }

    /// Joins a list at once, if it is one of RowKeys: joined by `or`, each a single box, of the same PartitionKeys.
    fn united<'a>(&mut self, connective: Connective, list: &[Planned<'a>]) -> Option<Keys<'a>> {
        let partitions = list.first()?.single_box()?.partitions;
        let is_of_them =
            |one: &Planned<'a>| one.single_box().is_some_and(|b| b.partitions == partitions);
        let are_rows = connective == Connective::Or && list.iter().all(is_of_them);
        if !are_rows || !self.may_look_at(list.iter().map(|one| one.keys.intervals()).sum()) {
            return None;
        }
        let rows = list.iter().filter_map(Planned::single_box).flat_map(|one| one.rows.iter());
        let rows = intervals::union(rows.copied()).into_iter().collect();
        let (boxes, grown) = KeyBoxes::of([partitions], &rows).bounded(MAX_INTERVALS);
        let exact = list.iter().all(|one| one.keys.exact);
        let coarse = list.iter().any(|one| one.keys.coarse);
        Some(Keys::new(boxes, exact && !grown, coarse || grown))
    }

    /// Whether that many intervals more are not too many.
    fn may_look_at(&mut self, intervals: usize) -> bool {
        self.work_left = self.work_left.saturating_sub(intervals);
        self.work_left > 0
    }

    fn join<'a>(&mut self, connective: Connective, a: Keys<'a>, b: Keys<'a>) -> Keys<'a> {
        let coarse = a.coarse || b.coarse;
        let exact = a.exact && b.exact;
        match connective {
            Connective::And if a.is_all() => return b,
            Connective::And if b.is_all() => return a,
            Connective::Or if a.is_all() => return a,
            Connective::Or if b.is_all() => return b,
            _ => {}
        }
        // Whatever it is, all keys remain possible.
        let all = Keys { coarse, ..Keys::everything(false) };
        if a.boxes.is_none() && b.boxes.is_none() {
            return all;
        }
        if !self.may_look_at(a.intervals() + b.intervals()) {
            return Keys { coarse: true, ..all };
        }
        let (boxes, grown) = match (connective, a.boxes, b.boxes) {
            (Connective::And, Some(a), Some(b)) => a.intersection(&b),
            (Connective::And, Some(boxes), None) | (Connective::And, None, Some(boxes)) => {
                (boxes, false)
            }
            (Connective::Or, Some(a), Some(b)) => a.union(&b),
            (Connective::Or, ..) | (Connective::And, None, None) => return all,
        };
        Keys::new(boxes, exact && !grown, coarse || grown)
    }
}

impl<'a> Keys<'a> {
    fn new(boxes: KeyBoxes<'a>, exact: bool, coarse: bool) -> Self {
        // No entity passes what no key is left for.
        let exact = exact || boxes.is_empty();
        Self { boxes: Some(boxes).filter(|boxes| !boxes.is_everything()), exact, coarse }
    }

    fn everything(exact: bool) -> Self {
        Self { boxes: None, exact, coarse: false }
    }

    /// Intervals of its boxes; all keys are one of PartitionKeys, and one of RowKeys.
    fn intervals(&self) -> usize {
        self.boxes.as_ref().map_or(2, KeyBoxes::intervals)
    }

    /// Whether every entity passes.
    fn is_all(&self) -> bool {
        self.exact && self.boxes.is_none()
    }
}

impl<'a> Term<'a> {
    fn keys(self) -> Keys<'a> {
        let Some(key) = self.key_text() else {
            return Keys::everything(false);
        };
        let keys = compared(self.operator, key.as_bytes()).into_iter().flatten();
        let boxes = match self.operand {
            Operand::PartitionKey => KeyBoxes::of(keys, &Rows::ALL),
            _ => KeyBoxes::of([Interval::EVERYTHING], &keys.collect()),
        };
        Keys::new(boxes, true, false)
    }
}

/// The keys that compare so with `key`, ascending.
fn compared(operator: Operator, key: &[u8]) -> [Option<Interval<'_>>; 2] {
    let (before, behind) = (Place::before(key), Place::behind(key));
    match operator {
        Operator::Eq => [Some(Interval::point(key)), None],
        Operator::Ne => [Interval::up_to(before), Some(Interval::from_place(behind))],
        Operator::Gt => [Some(Interval::from_place(behind)), None],
        Operator::Ge => [Some(Interval::from_place(before)), None],
        Operator::Lt => [Interval::up_to(before), None],
        Operator::Le => [Interval::up_to(behind), None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of comparisons with properties nothing is known, and nothing is held; joined with others,
    /// either way, they change nothing but exactness.
    #[test]
    fn comparisons_with_properties_hold_no_boxes() {
        let filter = |text| Filter::parse(text).unwrap();
        for text in ["A eq 1", "not (A eq 1)", "A eq 1 and B eq 2", "A eq 1 or RowKey eq 'r'"] {
            let filter = filter(text);
            let keys = keys(&filter);
            assert!(keys.boxes.is_none() && !keys.exact && !keys.coarse, "{text}");
        }
        for text in ["A eq 1 and RowKey eq 'r'", "RowKey eq 'r' and A eq 1"] {
            let filter = filter(text);
            let keys = keys(&filter);
            let one = KeyBoxes::of([Interval::EVERYTHING], &Rows::One(Interval::point(b"r")));
            assert!(keys.boxes == Some(one) && !keys.exact, "{text}");
        }
        let filter = filter("A eq 1 and RowKey eq 'r' and RowKey eq 's'");
        let nothing = keys(&filter);
        assert!(nothing.boxes == Some(KeyBoxes::nothing()) && nothing.exact);
    }

    fn keys(filter: &Filter) -> Keys<'_> {
        Planner { work_left: MAX_WORK }.keys(&filter.simplified()).0
    }
}
