//! [`Context`]: what of an answer's surroundings goes into its body.

/// Where the entities or tables of an answer are: fully described ones carry addresses.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The address of the account as the client has it, without a slash at the end:
    /// `http://127.0.0.1:10002/devstoreaccount1`.
    pub base: &'a str,
    /// The account's name, which begins the names of types.
    pub account: &'a str,
    /// The table's name as it was created; `Tables` where tables are told of.
    pub table: &'a str,
}
