//! A filter about other properties: for who keeps what is asked for under another name or in another
//! form.

use super::expr::{Comparison, Filter, Node, is_comparable};
use crate::entity::value::Value;

impl Filter {
    /// The filter with other comparisons in place of its own. `map` is given the property's name and
    /// the constant of each, and gives those to compare instead; the operators stay.
    ///
    /// A name that no property can have is as in [`Filter::property`].
    ///
    /// ```
    /// use tablestone::{Filter, Value};
    ///
    /// // Names are stored in lower case, as RowKeys.
    /// let asked: Filter = "Name ge 'Ann' and not (Name eq 5)".parse()?;
    /// let stored = asked.map_comparisons(|_, constant| match constant {
    ///     Value::String(name) => ("RowKey".into(), name.to_lowercase().into()),
    ///     other => ("RowKey".into(), other),
    /// });
    /// assert_eq!(stored.to_string(), "RowKey ge 'ann' and not (RowKey eq 5)");
    /// # Ok::<(), tablestone::FilterError>(())
    /// ```
    #[must_use]
    pub fn map_comparisons(mut self, mut map: impl FnMut(&str, Value) -> (String, Value)) -> Self {
        for node in &mut self.nodes {
            if let Node::Compare(Comparison { operand, operator, constant }) = node {
                let constant = std::mem::replace(constant, Value::Boolean(false));
                let (name, constant) = map(operand.name(), constant);
                *node = match is_comparable(&name) {
                    true => Node::compare(&name, *operator, constant),
                    false => Node::Constant(false),
                };
            }
        }
        self
    }
}
