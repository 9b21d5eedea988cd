//! The language: what texts mean, what is refused and where, and that printing is the opposite of
//! parsing (R-D06, protocol 6).

use proptest::prelude::*;

use super::generate::filter;
use crate::entity::filter::fuzz::fuzz_filter_parse;
use crate::entity::filter::{Filter, FilterError, FilterErrorKind};
use crate::entity::{DateTime, Guid, Value};

fn parse(text: &str) -> Filter {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> FilterError {
    match Filter::parse(text) {
        Ok(filter) => panic!("{text} is {filter}"),
        Err(error) => error,
    }
}

fn p(name: &str) -> Filter {
    Filter::property(name).eq(true)
}

/// Both texts mean the same, written out in the second.
#[track_caller]
fn same(text: &str, written_out: &str) {
    assert_eq!(parse(text), parse(written_out), "{text}");
}

/// R-D06, G-068: the six operators, W-132: on keys and properties.
#[test]
fn r_d06_comparisons() {
    let age = || Filter::property("Age");
    assert_eq!(parse("Age eq 5"), age().eq(5));
    assert_eq!(parse("Age ne 5"), age().ne(5));
    assert_eq!(parse("Age gt 5"), age().gt(5));
    assert_eq!(parse("Age ge 5"), age().ge(5));
    assert_eq!(parse("Age lt 5"), age().lt(5));
    assert_eq!(parse("Age le 5"), age().le(5));
    assert_eq!(parse("PartitionKey eq 'a'"), Filter::partition_key().eq("a"));
    assert_eq!(parse("RowKey ge 'a'"), Filter::row_key().ge("a"));
    assert_eq!(parse("Timestamp lt datetime'9999-12-31T23:59:59.9999999Z'"), {
        Filter::timestamp().lt(DateTime::MAX)
    });
    assert_eq!(Filter::property("RowKey").eq("a"), Filter::row_key().eq("a"));
    assert_ne!(parse("rowkey eq 'a'"), Filter::row_key().eq("a"), "names are case-sensitive");
}

/// R-D06: every form of a constant.
#[test]
fn r_d06_constants() {
    #[track_caller]
    fn is(text: &str, value: impl Into<Value>) {
        assert_eq!(parse(&format!("P eq {text}")), Filter::property("P").eq(value), "{text}");
    }
    is("'text'", "text");
    is("''", "");
    is("''''", "'");
    is("'''a'''", "'a'");
    is("'it''s'", "it's");
    is("'email_jonesj@contoso.com'", "email_jonesj@contoso.com"); // G-071
    is("'Ärger 名前 𝒳 \n\0'", "Ärger 名前 𝒳 \n\0");
    is("'a and b eq ('", "a and b eq (");
    is("5", 5);
    is("-5", -5);
    is("007", 7);
    is("2147483647", i32::MAX);
    is("-2147483648", i32::MIN);
    is("2147483648", 1i64 << 31);
    is("-2147483649", -(1i64 << 31) - 1);
    is("9223372036854775807", i64::MAX);
    is("-9223372036854775808", i64::MIN);
    is("5L", 5i64);
    is("-5l", -5i64);
    is("1.5", 1.5);
    is("-1.5", -1.5);
    is("1e300", 1e300);
    is("1E+299", 1e299);
    is("1e-3", 1e-3);
    is("1.25e2D", 125.0);
    is("1D", 1.0);
    is("1d", 1.0);
    is("-0.0", -0.0);
    is("1e-400", 0.0);
    is("INF", f64::INFINITY);
    is("-INF", f64::NEG_INFINITY);
    is("NaN", f64::NAN);
    is("true", true);
    is(
        "datetime'2008-10-01T15:27:34.4838174Z'",
        DateTime::from_ticks(128_673_484_544_838_174).unwrap(),
    );
    is("DateTime'1601-01-01T00:00:00Z'", DateTime::MIN);
    is("datetime'1601-01-01'", DateTime::MIN);
    is("datetime'1601-01-01T00:00:00.000000099Z'", DateTime::MIN);
    let guid =
        Guid::from_bytes(*b"\xc9\xda\x64\x55\x21\x3d\x42\xc9\x9a\x79\x3e\x91\x49\xa5\x78\x33");
    is("guid'c9da6455-213d-42c9-9a79-3e9149a57833'", guid);
    is("guid'C9DA6455-213D-42C9-9A79-3E9149A57833'", guid);
    is("X'0aff'", b"\x0a\xff");
    is("x'0AFF'", b"\x0a\xff");
    is("binary'0aff'", b"\x0a\xff");
    is("X''", b"");
}

/// R-D06: Boolean constants in any case, alone, or as operands.
#[test]
fn r_d06_true_and_false() {
    for (text, value) in [("True", true), ("TRUE", true), ("false", false), ("fAlSe", false)] {
        assert_eq!(parse(&format!("P eq {text}")), Filter::property("P").eq(value));
        assert_eq!(parse(text), if value { Filter::everything() } else { Filter::nothing() });
    }
    assert_eq!(parse("false or P"), Filter::nothing().or(p("P")));
    assert_eq!(parse("not true and (false)"), (!Filter::everything()).and(Filter::nothing()));
}

/// R-D06: an empty text is no filter.
#[test]
fn r_d06_an_empty_text_means_everything() {
    for text in ["", " ", "\t\n"] {
        assert_eq!(parse(text), Filter::everything());
    }
    assert_eq!(Filter::default(), Filter::everything());
}

/// R-D06: a property alone asks whether it is true.
#[test]
fn r_d06_a_property_alone() {
    same("Active", "Active eq true");
    same("not Active", "not (Active eq true)");
    same("(Active)and(Age eq 5)", "Active eq true and Age eq 5");
}

/// R-D06: a constant may be on the left side.
#[test]
fn r_d06_a_constant_on_the_left_mirrors_the_comparison() {
    for (left, right) in
        [("eq", "eq"), ("ne", "ne"), ("gt", "lt"), ("ge", "le"), ("lt", "gt"), ("le", "ge")]
    {
        same(&format!("5 {left} Age"), &format!("Age {right} 5"));
    }
    same("'a' le PartitionKey", "PartitionKey ge 'a'");
    same("true eq Active", "Active eq true");
}

/// R-D06: `and` binds tighter than `or`, `not` tightest; G-069: nested parentheses.
#[test]
fn r_d06_precedence() {
    assert_eq!(parse("A or B and C"), p("A").or(p("B").and(p("C"))));
    assert_eq!(parse("A and B or C"), p("A").and(p("B")).or(p("C")));
    assert_eq!(parse("A and B or C and D or E"), {
        p("A").and(p("B")).or(p("C").and(p("D"))).or(p("E"))
    });
    assert_eq!(parse("(A or B) and C"), p("A").or(p("B")).and(p("C")));
    assert_eq!(parse("not A and B"), (!p("A")).and(p("B")));
    assert_eq!(parse("not A eq 5 or B"), (!Filter::property("A").eq(5)).or(p("B")));
    assert_eq!(parse("not (A or B) and C"), (!p("A").or(p("B"))).and(p("C")));
    assert_eq!(parse("not not A"), p("A"));
    assert_eq!(parse("not not not A"), !p("A"));
    same("((A or B) or C) or (D)", "A or B or C or D");
    same("A and (B and (C and D))", "A and B and C and D");
    assert_ne!(parse("(A or B) and C"), parse("A or B and C"));
}

/// R-D06: `(A)and(B)` needs no spaces, and more are no harm.
#[test]
fn r_d06_spaces_are_needed_only_between_words() {
    same("(A)and(B)", "A and B");
    same("not(A)", "not A");
    same("(A eq'x')or(B eq 5)", "A eq 'x' or B eq 5");
    same("'x'eq A", "A eq 'x'");
    same(" \t( A\u{A0}eq\n5 ) ", "A eq 5");
    assert_eq!(refused("Aeq 5").column, 5);
    assert_eq!(refused("A eq 5and B").found.as_ref(), "`5and`");
}

/// R-D02: names are identifiers of any script; words of the language need a sign.
#[test]
fn r_d02_names() {
    for name in ["Größe", "名前", "_x", "x1", "AND", "Not", "nan", "inf", "nULL", "datetime", "X"]
    {
        assert_eq!(parse(&format!("{name} eq 5")), Filter::property(name).eq(5));
    }
    for name in ["and", "or", "not", "eq", "le", "null", "NaN", "INF", "true", "FALSE"] {
        let filter = Filter::property(name).eq(5);
        assert_eq!(parse(&format!("@{name} eq 5")), filter);
        assert_eq!(filter.to_string(), format!("@{name} eq 5"));
    }
    same("@A eq 5", "A eq 5");
    let longest = "x".repeat(64 << 10);
    assert_eq!(parse(&longest), p(&longest));
    assert_eq!(refused(&format!("A or {longest}x")).column, 6);
    // No entity has a property of such a name.
    for name in ["", "a b", "1a", "a-b", &format!("{longest}x")] {
        assert_eq!(Filter::property(name).ne(5), Filter::nothing(), "{name:?}");
    }
}

/// Protocol 6: what a server answers with another code is told apart.
#[test]
fn r_d06_what_has_no_meaning_is_refused_as_such() {
    use FilterErrorKind::{
        ConstantAgainstConstant, Function, LiteralOutOfRange, NoBoolean, NullLiteral,
        PropertyAgainstProperty, Syntax,
    };
    for (text, kind, column, length) in [
        ("A eq null", NullLiteral, 6, 4),
        ("null ne A", NullLiteral, 1, 4),
        ("A or null", NullLiteral, 6, 4),
        ("A eq B", PropertyAgainstProperty, 6, 1),
        ("PartitionKey eq RowKey", PropertyAgainstProperty, 17, 6),
        ("Ä eq 'ß' and B lt @not", PropertyAgainstProperty, 19, 4),
        ("1 eq 1", ConstantAgainstConstant, 6, 1),
        ("A and (true eq 'x')", ConstantAgainstConstant, 16, 3),
        ("(PartitionKey ) and (RowKey ge '000050')", NoBoolean, 2, 12),
        ("A or RowKey", NoBoolean, 6, 6),
        ("not Timestamp", NoBoolean, 5, 9),
        ("PartitionKey", NoBoolean, 1, 12),
        ("startswith(A, 'x')", Function, 1, 10),
        ("B and not (endswith (A,'x') eq true)", Function, 12, 8),
        ("5 eq length(A)", Function, 6, 6),
        ("starts(A, 'x')", Syntax, 7, 1),
        ("A eq 9223372036854775808", LiteralOutOfRange, 6, 19),
        ("A eq -9223372036854775809L", LiteralOutOfRange, 6, 21),
        ("A eq 1e309", LiteralOutOfRange, 6, 5),
        ("A eq -1e309D", LiteralOutOfRange, 6, 7),
        ("A eq datetime'1600-12-31T23:59:59Z'", LiteralOutOfRange, 6, 30),
        ("A eq datetime'10000-01-01'", LiteralOutOfRange, 6, 21),
    ] {
        let error = refused(text);
        assert_eq!(
            (error.kind, error.column, error.length),
            (kind, column, length),
            "{text}: {error}"
        );
    }
    let expected = "expected a comparison without functions (a prefix is a range)";
    let error = refused("startswith(A,'x')").to_string();
    assert_eq!(error, format!("column 1: {expected}, found `startswith`"));
}

/// R-D06: who writes a constant that is out of range is told the range.
#[test]
fn r_d06_a_constant_out_of_range_is_told_its_range() {
    let integer = "an integer from -9223372036854775808 to 9223372036854775807, or a Double with a \
                   point, an exponent or `D`";
    let instant = "an instant from 1601-01-01 to 9999-12-31 in UTC";
    let double = "a Double from -1.7976931348623157e308 to 1.7976931348623157e308";
    for (constant, expected) in [
        ("9223372036854775808", integer),
        ("-9223372036854775809L", integer),
        ("datetime'0001-01-01T00:00:00Z'", instant),
        ("datetime'10000-01-01T00:00:00Z'", instant),
        ("1e309", double),
    ] {
        let error = refused(&format!("A eq {constant}")).to_string();
        assert_eq!(error, format!("column 6: expected {expected}, found `{constant}`"));
    }
    // What it says to write instead can be written.
    for constant in ["9223372036854775808D", "9223372036854775808.0", "-9.3e18"] {
        parse(&format!("A eq {constant}"));
    }
}

/// Issue 3: errors point to the column of the text, in characters from 1, and say what was
/// expected and found.
#[test]
fn r_d06_errors_point_to_their_column() {
    for (text, column, message) in [
        ("aaa bbb ccc", 5, "expected `and`, `or` or the end, found `bbb`"),
        ("Name eq 'Ärger' und B", 17, "expected `and`, `or` or the end, found `und`"),
        ("𝒳 eq", 5, "expected a constant or a property, found the end of the text"),
        ("(A or B", 8, "expected `and`, `or` or `)`, found the end of the text"),
        ("A)", 2, "expected `and`, `or` or the end, found `)`"),
        ("()", 2, "expected a condition, found `)`"),
        ("A and", 6, "expected a condition, found the end of the text"),
        ("and A", 1, "expected a condition, found `and`"),
        ("not", 4, "expected a condition, found the end of the text"),
        ("A eq and", 6, "expected a constant or a property, found `and`"),
        ("A eq (5)", 6, "expected a constant or a property, found `(`"),
        (
            "5",
            2,
            "expected an operator (eq, ne, gt, ge, lt, le) after a constant, found the end of the text",
        ),
        ("(A) eq 5", 5, "expected `and`, `or` or the end, found `eq`"),
        ("A eq 5 6", 8, "expected `and`, `or` or the end, found `6`"),
        ("starts(A,'x')", 7, "expected `and`, `or` or the end, found `(`"),
        ("A = 5", 3, "expected a property, a constant, an operator or `(`, found `=`"),
        ("A eq 'open", 6, "expected a closing quote, found `'open`"),
        ("A eq 1.", 6, "expected a number, found `1.`"),
        ("A eq .5", 6, "expected a property, a constant, an operator or `(`, found `.`"),
        ("A eq 1e", 6, "expected a number, found `1e`"),
        ("A eq - 5", 6, "expected a number, found `-`"),
        ("A eq -INFx", 6, "expected a number, found `-INFx`"),
        ("A eq 1.2.3", 6, "expected a number: digits, and `L` or `D` for its type, found `1.2.3`"),
        ("A eq 1.5L", 6, "expected a number: digits, and `L` or `D` for its type, found `1.5L`"),
        ("A eq 1M", 6, "expected a number: digits, and `L` or `D` for its type, found `1M`"),
        ("A eq 0x1F", 6, "expected a number: digits, and `L` or `D` for its type, found `0x1F`"),
        ("A eq X'0a0'", 11, "expected pairs of hexadecimal digits and a closing quote, found `'`"),
        ("A eq X'0g'", 9, "expected pairs of hexadecimal digits and a closing quote, found `g`"),
        (
            "A eq X'00",
            10,
            "expected pairs of hexadecimal digits and a closing quote, found the end of the text",
        ),
        ("A eq guid'0011'", 15, "expected a hexadecimal digit, found `'`"),
        ("A eq datetime'2000-13-01'", 20, "expected a month from 01 to 12, found `1`"),
        (
            "A eq time'PT1H'",
            6,
            "expected `datetime`, `guid`, `X` or `binary` before a quote, found `time`",
        ),
        (
            "A–B eq 5",
            1,
            "expected a property's name (an identifier of at most 65,536 characters), found `A–B`",
        ),
        (
            "@ eq 5",
            1,
            "expected a property's name (an identifier of at most 65,536 characters), found `@`",
        ),
    ] {
        let error = refused(text);
        assert_eq!(error.kind, FilterErrorKind::Syntax, "{text}");
        assert_eq!(error.to_string(), format!("column {column}: {message}"), "{text}");
        assert_eq!(error.column, column);
    }
}

/// Protocol 6: `Syntax error at position 7 in 'aaa bbb ccc'.`
#[test]
fn the_services_position_is_behind_what_was_found() {
    let error = refused("aaa bbb ccc");
    assert_eq!(error.column - 1 + error.length, 7);
}

#[test]
fn an_error_repeats_a_long_text_in_part() {
    let error = refused(&format!("A eq {}!", "9".repeat(1000)));
    assert_eq!((error.column, error.length), (6, 1000));
    assert_eq!(error.found.as_ref(), format!("`{}...`", "9".repeat(40)));
}

/// R-S12: nothing that a client can make grow grows without bound, and what is allowed works.
#[test]
fn r_s12_length_and_nesting_are_bounded() {
    let nested = |depth: usize| format!("{}A{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(parse(&nested(Filter::MAX_NESTING)), p("A"));
    let error = refused(&nested(Filter::MAX_NESTING + 1));
    assert_eq!(error.kind, FilterErrorKind::NestedTooDeep);
    assert_eq!(error.column, Filter::MAX_NESTING + 1);
    let nots = refused(&format!("{} A", "not ".repeat(Filter::MAX_NESTING + 1)));
    assert_eq!((nots.kind, nots.column), (FilterErrorKind::NestedTooDeep, 40_001));
    // As deep as may be, it prints as what parses.
    let deepest =
        format!("{}A{}", "not(B or ".repeat(Filter::MAX_NESTING), ")".repeat(Filter::MAX_NESTING));
    let filter = parse(&deepest);
    assert!(parse(&filter.to_string()) == filter);
    let wide = |bytes: usize| format!("A{}", " ".repeat(bytes - 1));
    assert_eq!(parse(&wide(Filter::MAX_TEXT_BYTES)), p("A"));
    let error = refused(&wide(Filter::MAX_TEXT_BYTES + 1));
    assert_eq!(error.kind, FilterErrorKind::TextTooLong);
    assert_eq!(error.to_string(), "column 1: expected at most 1048576 bytes, found 1048577 bytes");
}

/// W-130: clients build long lists; a chain of 10,000 is one list, also with the parentheses that
/// combining pairwise makes.
#[test]
fn ten_thousand_conditions_are_one_list() {
    let count = 10_000;
    let keys: Vec<String> = (0..count).map(|i| format!("RowKey eq '{i}'")).collect();
    let flat = parse(&keys.join(" or "));
    assert_eq!(flat.nodes.len(), count + 1);
    let mut pairwise = format!("{}{}", "(".repeat(count - 1), keys[0]);
    pairwise.extend(keys[1..].iter().map(|key| format!(") or ({key})")));
    let pairwise = parse(&pairwise);
    assert!(pairwise == flat);
    let built = (0..count).map(|i| Filter::row_key().eq(i.to_string())).reduce(Filter::or).unwrap();
    assert!(built == flat);
    assert!(parse(&built.to_string()) == built);
}

/// A filter may be built deeper than a text may nest: nothing recurses.
#[test]
fn a_filter_built_deep_is_printed_and_dropped() {
    let deep = (0..100_000).fold(p("A"), |deep, _| (!deep).or(p("B")));
    let simplified = deep.simplified();
    assert!(deep.to_string().starts_with("not (not (not ("));
    assert!(simplified.nodes.len() > 100_000);
    drop(deep);
}

proptest! {
    /// Printing gives a text that parses to the same filter.
    #[test]
    fn what_is_printed_parses_to_the_same(filter in filter()) {
        let text = filter.to_string();
        prop_assert_eq!(Filter::parse(&text), Ok(filter), "{}", text);
    }

    /// Any text is a filter or an error with a place inside of the text.
    #[test]
    fn any_text_is_parsed_or_refused(
        text in r"([()@' ]|and |or |not |eq |[0-9.eE+-]{1,4}|[LDX]|'|''|guid'|datetime'|\PC){0,24}",
    ) {
        fuzz_filter_parse(&text);
    }
}
