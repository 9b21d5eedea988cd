//! [`Select`]: which properties a query wants (`$select`, protocol 6).

/// Which properties a query wants.
///
/// ```
/// use tablestone_server::wire::Select;
/// assert_eq!(Select::parse("A, B,A").names(), Some(&["A".to_owned(), "B".to_owned()][..]));
/// assert_eq!(Select::parse("A,*").names(), None);
/// assert_eq!(Select::parse("").names(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    names: Option<Vec<String>>,
}

impl Select {
    /// All properties.
    pub const ALL: Self = Self { names: None };

    /// Reads the value of `$select`, percent-decoded: names between commas, spaces around them.
    /// Nothing, or `*` among them, is all.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                return Self::ALL;
            }
            if !names.iter().any(|earlier| earlier == name) {
                names.push(name.to_owned());
            }
        }
        if names.is_empty() { Self::ALL } else { Self { names: Some(names) } }
    }

    /// The names, each once, in the order asked for; none if all are wanted.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}
