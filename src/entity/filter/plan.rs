//! The planner: from a filter the keys that can match, and what is left to ask of their entities.
//!
//! Invariant: an entity that passes the filter has its key in the boxes. Comparisons with keys give
//! exact boxes, other comparisons all keys; `and` intersects and `or` unites. Where that becomes
//! too much the boxes grow, they never shrink. What the boxes say exactly is not asked again.

use super::boxes::KeyBoxes;
use super::explain::Explain;
use super::expr::{Comparison, Connective, Filter, Node, Operand, Operator};
use super::intervals::Interval;
use crate::key::KeyBounds;

/// Intervals that planning may look at. Ten thousand keys joined by `or` take about 400,000; a
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
        let filter = self.simplified();
        let (keys, parts) = Planner { work_left: MAX_WORK }.keys(&filter);
        let residual = filter.residual(&keys, &parts);
        Explain::new(keys.boxes.unwrap_or_else(KeyBoxes::everything), residual)
    }

    /// The same for a query that is restricted to these keys.
    pub(crate) fn explain_within(&self, partition: &KeyBounds, row: &KeyBounds) -> Explain {
        let explain = self.explain();
        let within = KeyBoxes::between(partition, row);
        let (boxes, residual) = explain.into_parts();
        // One box more leaves no more intervals than there are, so the set does not grow.
        let (boxes, _) = boxes.intersection(&within);
        Explain::new(boxes, residual)
    }

    /// What is left to ask of entities with keys in the boxes: of a list of conditions that must
    /// all hold, those that the boxes do not say.
    fn residual(&self, keys: &Keys, parts: &[Part]) -> Option<Self> {
        if keys.exact {
            return None;
        }
        let left: Vec<&Part> = parts.iter().filter(|part| !part.exact).collect();
        if !matches!(self.nodes.last(), Some(Node::And(_))) || keys.coarse || left.is_empty() {
            return Some(self.clone());
        }
        let operands = left.len();
        let nodes = left.into_iter().flat_map(|part| self.nodes.get(part.nodes.clone()));
        let mut nodes: Vec<Node> = nodes.flatten().cloned().collect();
        if operands > 1 {
            nodes.push(Node::And(operands));
        }
        Some(Self { nodes })
    }
}

/// The keys of entities that can pass an expression.
struct Keys {
    /// None are all keys: comparisons with properties have none, and there may be many.
    boxes: Option<KeyBoxes>,
    /// Exactly the entities with these keys pass.
    exact: bool,
    /// The boxes are larger than the keys compared with say.
    coarse: bool,
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
    fn keys(mut self, filter: &Filter) -> (Keys, Vec<Part>) {
        let mut operands: Vec<(usize, Keys)> = Vec::new();
        let mut parts = Vec::new();
        for (at, node) in filter.nodes.iter().enumerate() {
            let (connective, count) = match *node {
                Node::Constant(true) => {
                    operands.push((at, Keys::everything(true)));
                    continue;
                }
                Node::Constant(false) => {
                    operands.push((at, Keys::new(KeyBoxes::nothing(), true, false)));
                    continue;
                }
                Node::Compare(ref comparison) => {
                    operands.push((at, comparison.keys()));
                    continue;
                }
                // Of a comparison with a property, which leaves all keys possible.
                Node::Not => continue,
                Node::And(count) => (Connective::And, count),
                Node::Or(count) => (Connective::Or, count),
            };
            let listed = operands.split_off(operands.len().saturating_sub(count));
            let start = listed.first().map_or(at, |(start, _)| *start);
            if at + 1 == filter.nodes.len() {
                let ends = listed.iter().skip(1).map(|(start, _)| *start).chain([at]);
                let part = |((start, keys), end): (&(usize, Keys), usize)| Part {
                    nodes: *start..end,
                    exact: keys.exact,
                };
                parts = listed.iter().zip(ends).map(part).collect();
            }
            let keys = self.joined(connective, listed.into_iter().map(|(_, keys)| keys).collect());
            operands.push((start, keys));
        }
        let whole = operands.pop().map_or_else(|| Keys::everything(false), |(_, keys)| keys);
        (whole, parts)
    }

    /// Joins a list pairwise, so that a long one takes as many rounds as its length has bits.
    fn joined(&mut self, connective: Connective, mut list: Vec<Keys>) -> Keys {
        while list.len() > 1 {
            let mut pairs = list.into_iter();
            let mut joined = Vec::with_capacity(pairs.len() / 2 + 1);
            while let Some(first) = pairs.next() {
                joined.push(match pairs.next() {
                    Some(second) => self.join(connective, first, second),
                    None => first,
                });
            }
            list = joined;
        }
        list.pop().unwrap_or_else(|| Keys::everything(false))
    }

    fn join(&mut self, connective: Connective, a: Keys, b: Keys) -> Keys {
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
        self.work_left = self.work_left.saturating_sub(a.intervals() + b.intervals());
        if self.work_left == 0 {
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

impl Keys {
    fn new(boxes: KeyBoxes, exact: bool, coarse: bool) -> Self {
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

impl Comparison {
    fn keys(&self) -> Keys {
        let Some(key) = self.key_text() else {
            return Keys::everything(false);
        };
        let all = || vec![Interval::everything()];
        let keys = intervals(self.operator, key.as_bytes());
        let boxes = match self.operand {
            Operand::PartitionKey => KeyBoxes::of(keys, all()),
            _ => KeyBoxes::of(all(), keys),
        };
        Keys::new(boxes, true, false)
    }
}

/// The keys that compare so with `key`, ascending.
fn intervals(operator: Operator, key: &[u8]) -> Vec<Interval> {
    let below = |inclusive| Interval::below(key, inclusive);
    let above = |inclusive| Some(Interval::above(key, inclusive));
    let (first, second) = match operator {
        Operator::Eq => (Some(Interval::point(key)), None),
        Operator::Ne => (below(false), above(false)),
        Operator::Gt => (above(false), None),
        Operator::Ge => (above(true), None),
        Operator::Lt => (below(false), None),
        Operator::Le => (below(true), None),
    };
    first.into_iter().chain(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of comparisons with properties nothing is known, and nothing is held; joined with others,
    /// either way, they change nothing but exactness.
    #[test]
    fn comparisons_with_properties_hold_no_boxes() {
        let keys = |text: &str| {
            let filter = Filter::parse(text).unwrap().simplified();
            Planner { work_left: MAX_WORK }.keys(&filter).0
        };
        for text in ["A eq 1", "not (A eq 1)", "A eq 1 and B eq 2", "A eq 1 or RowKey eq 'r'"] {
            let keys = keys(text);
            assert!(keys.boxes.is_none() && !keys.exact && !keys.coarse, "{text}");
        }
        let one = KeyBoxes::of(vec![Interval::everything()], vec![Interval::point(b"r")]);
        for text in ["A eq 1 and RowKey eq 'r'", "RowKey eq 'r' and A eq 1"] {
            let keys = keys(text);
            assert!(keys.boxes == Some(one.clone()) && !keys.exact, "{text}");
        }
        let nothing = keys("A eq 1 and RowKey eq 'r' and RowKey eq 's'");
        assert!(nothing.boxes == Some(KeyBoxes::nothing()) && nothing.exact);
    }
}
