//! [`EntityDecoder`]: bodies one after the other, most with the same members.
//!
//! SDKs send the entities of a transaction with the same names, types and order. So a body is first held
//! against the one before: everything between the values must be the same bytes, and then means the
//! same, was found to be JSON, to keep the limits, and to have no member twice. Only values are read. At
//! the first difference the body is read as if it were alone, which gives the result or tells what is
//! wrong: decoding in turn never gives anything else than [`decode_entity`](super::decode_entity).

use std::borrow::Cow;

use tablestone::{EntityLimits, ValueType};

use super::decode::{Decoder, Meaning, Place};
use super::error::JsonError;
use super::lexer::Lexer;
use super::raw::Raw;
use crate::wire::{BodyValue, EntityBody};

/// Values in a body that others are held against, those included that are passed over.
const MAX_VALUES: usize = 2 * EntityLimits::LARGEST.properties;

/// Reads bodies in turn, each as [`decode_entity`](super::decode_entity) does.
///
/// ```
/// use tablestone_server::wire::json::{EntityDecoder, decode_entity};
///
/// let mut decoder = EntityDecoder::default();
/// for body in [r#"{"RowKey":"1","A":1}"#, r#"{"RowKey":"2","A":"two"}"#, r#"{"B":3}"#] {
///     assert_eq!(decoder.decode(body.as_bytes()), decode_entity(body.as_bytes()));
/// }
/// ```
#[derive(Debug, Default)]
pub struct EntityDecoder<'a> {
    template: Option<Template<'a>>,
}

/// A body that was read, without its values.
#[derive(Debug)]
struct Template<'a> {
    values: Vec<Expected<'a>>,
    /// As in [`EntityBody`].
    typed_key: bool,
    /// What follows the last value.
    end: &'a [u8],
}

/// A value, and what stands between it and the one before.
#[derive(Debug)]
struct Expected<'a> {
    before: &'a [u8],
    of: Of<'a>,
}

/// What a value is the value of.
#[derive(Clone, Copy, Debug)]
enum Of<'a> {
    PartitionKey,
    RowKey,
    Property(&'a str, Option<ValueType>),
    /// Something that is passed over.
    Nothing,
}

impl<'a> EntityDecoder<'a> {
    /// Reads the body of a write.
    ///
    /// # Errors
    /// [`JsonError`] with the offset.
    pub fn decode(&mut self, body: &'a [u8]) -> Result<EntityBody<'a>, JsonError> {
        if let Some(entity) = self.template.as_ref().and_then(|known| known.decode(body)) {
            return Ok(entity);
        }
        let mut decoder = Decoder::new(body)?;
        let start = decoder.lexer.at();
        let mut places = Vec::with_capacity(16);
        decoder.object(|place| places.extend((places.len() <= MAX_VALUES).then_some(place)))?;
        let template = Template::of(body, start, &places, &decoder);
        let entity = decoder.into_entity()?;
        self.template = template;
        Ok(entity)
    }
}

impl<'a> Template<'a> {
    /// The template of a body whose text starts there; none of one that is not as SDKs send it.
    fn of(body: &'a [u8], start: usize, places: &[Place], read: &Decoder<'a>) -> Option<Self> {
        if places.len() > MAX_VALUES {
            return None;
        }
        let mut values = Vec::with_capacity(places.len());
        let (mut began, mut last_property) = (start, None);
        for place in places {
            let of = match place.meaning {
                Meaning::Other => continue,
                Meaning::PassedOver => Of::Nothing,
                Meaning::PartitionKey => Of::PartitionKey,
                Meaning::RowKey => Of::RowKey,
                Meaning::Property(index) => {
                    // Types that stand far from their properties would change the order.
                    if last_property.replace(index) >= Some(index) {
                        return None;
                    }
                    let member = read.members.as_slice().get(index)?;
                    let Cow::Borrowed(name) = member.name else { return None };
                    Of::Property(name, member.annotation)
                }
            };
            values.push(Expected { before: body.get(began..place.start)?, of });
            began = place.end;
        }
        Some(Self { values, typed_key: read.typed_key, end: body.get(began..)? })
    }

    /// What a body says that differs in its values alone; none for any other, and for any mistake.
    fn decode(&self, body: &'a [u8]) -> Option<EntityBody<'a>> {
        let mut lexer = Lexer::new(body).ok()?;
        let properties = Vec::with_capacity(self.values.len());
        let typed_key = self.typed_key;
        let mut entity = EntityBody { partition_key: None, row_key: None, typed_key, properties };
        for Expected { before, of } in &self.values {
            if !lexer.pass(before) {
                return None;
            }
            let text = lexer.take_plain_string();
            if let (Some(text), Of::Property(name, None | Some(ValueType::String))) = (text, *of) {
                entity.properties.push((Cow::Borrowed(name), BodyValue::Text(text)));
                continue;
            }
            let value = match text {
                Some(text) => Raw::String(Cow::Borrowed(text)),
                None => Raw::of(lexer.next().ok()?)?,
            };
            match *of {
                Of::PartitionKey => entity.partition_key = value.key()?,
                Of::RowKey => entity.row_key = value.key()?,
                Of::Property(name, annotation) => {
                    let value = value.value(annotation).ok()?;
                    entity.properties.extend(value.map(|value| (Cow::Borrowed(name), value)));
                }
                Of::Nothing => {}
            }
        }
        (lexer.rest() == self.end).then_some(entity)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decode_entity;
    use super::super::tests_support::nearly_json;
    use super::*;

    /// What a body is decoded as alone, and after another one; and whether the template took it.
    fn after(first: &str, body: &str) -> bool {
        let mut decoder = EntityDecoder::default();
        assert_eq!(decoder.decode(first.as_bytes()), decode_entity(first.as_bytes()), "{first}");
        let known = decoder.template.as_ref().and_then(|known| known.decode(body.as_bytes()));
        assert_eq!(decoder.decode(body.as_bytes()), decode_entity(body.as_bytes()), "{body}");
        known.is_some()
    }

    const FIRST: &str = r#"{"odata.etag":"x","PartitionKey":"p","RowKey":"r","Timestamp":null,"A":1,"B@odata.type":"Edm.Int64","B":"5","C":"c","C@odata.type":"Edm.String","D":true}"#;

    /// R-S04: bodies that differ in values alone are read by the template, and as they are alone.
    #[test]
    fn r_s04_other_values_are_read_by_the_template() {
        for (from, to) in [
            ("\"x\"", "17"),
            ("\"p\"", "\"\""),
            ("\"p\"", "null"),
            ("\"r\"", r#""a\u0041\n""#),
            ("null", "\"2008-10-01T15:27:34Z\""),
            (":1,", ":-1.5e3,"),
            (":1,", ":\"1\","),
            ("\"5\"", "7"),
            ("\"5\"", "null"),
            ("\"c\"", r#""\"é""#),
            ("true", "false"),
            ("true", "0"),
        ] {
            let body = FIRST.replacen(from, to, 1);
            assert_ne!(body, FIRST);
            assert!(after(FIRST, &body), "{body}");
            assert!(after(&body, FIRST), "{body}");
        }
        assert!(after("\u{feff}{ }", "{ }"));
        let typed = FIRST.replacen("\"RowKey\"", r#""RowKey@odata.type":"Edm.Guid","RowKey""#, 1);
        assert!(after(&typed, &typed.replacen("\"r\"", "\"s\"", 1)));
        assert!(!after(&typed, &typed.replacen("Guid", "String", 1)));
        assert!(after("{\"A\":1}", "{\"A\": 2}"), "blanks before a value are the value's");
    }

    /// R-S04: anything else is not.
    #[test]
    fn r_s04_other_members_are_not_read_by_the_template() {
        for (from, to) in [
            ("\"A\"", "\"a\""),
            ("\"A\"", "\"D\""),
            ("\"A\"", "\"\\u0041\""),
            ("\"A\"", "\"Timestamp\""),
            ("Int64", "Int32"),
            ("Int64", "Guid"),
            ("Int64", "Nothing"),
            ("\"5\"", "\"x\""),
            ("\"5\"", "true"),
            ("\"p\"", "5"),
            ("\"r\"", "{}"),
            (":1,", ":{},"),
            (":1,", ":01,"),
            (":1,", ":1 ,"),
            (":1,", ":1,\"E\":2,"),
            (":1,", ":,"),
            ("\"x\"", "[1,{}]"),
            ("\"c\"", "\"c"),
            ("\"D\":true", ""),
            ("true}", "true"),
            ("true}", "true} "),
            ("true}", "true}}"),
            ("true}", "truer}"),
            ("true}", "true,\"D\":1}"),
        ] {
            let body = FIRST.replacen(from, to, 1);
            assert_ne!(body, FIRST);
            assert!(!after(FIRST, &body), "{body}");
            after(&body, FIRST);
        }
        assert!(!after(FIRST, ""));
        assert_eq!(EntityDecoder::default().decode(b"\xff").map_err(|it| it.offset), Err(0));
    }

    /// Objects that are passed over stand for themselves; properties keep the order of their first
    /// mention; what is not read makes no template.
    #[test]
    fn r_s04_what_makes_no_usual_template_is_read_all_the_same() {
        let nested = r#"{"odata.x":{"a":[1]},"A":1}"#;
        assert!(after(nested, &nested.replace(":1}", ":2}")));
        assert!(!after(nested, &nested.replace("[1]", "[2]")));
        let far = r#"{"A@odata.type":"Edm.Int64","B":1,"A":"5"}"#;
        assert!(!after(far, far));
        assert!(!after(r#"{"\u0041":1}"#, r#"{"\u0041":1}"#));
        let many: Vec<String> = (0..=MAX_VALUES).map(|at| format!("\"P{at}\":null")).collect();
        let body = |many: &[String]| format!("{{{}}}", many.join(","));
        assert!(!after(&body(&many), &body(&many)));
        assert!(after(&body(&many[1..]), &body(&many[1..])));
        // One that is wrong is not what the next is held against.
        let mut decoder = EntityDecoder::default();
        assert!(decoder.decode(b"{\"A\":1}").is_ok());
        assert!(decoder.decode(b"{\"A@odata.type\":\"Edm.Int64\",\"A\":true}").is_err());
        assert!(decoder.template.as_ref().is_some_and(|it| it.decode(b"{\"A\":2}").is_some()));
    }

    /// Objects of a few members, so that many have the same.
    fn alike() -> impl Strategy<Value = String> {
        let value = prop::sample::select(vec![
            "1",
            "-0",
            "5.0",
            "1e9",
            "\"5\"",
            "\"\"",
            "\"x y\"",
            "\"\\u00e9\"",
            "\"é\"",
            "true",
            "null",
            " null",
            "01",
            "{}",
            "\"2008-10-01T15:27:34Z\"",
            "\"Edm.Int64\"",
        ]);
        let name = prop::sample::select(vec![
            "A",
            "A",
            "B",
            "A@odata.type\":\"Edm.Int64\",\"A",
            "B@odata.type",
            "PartitionKey",
            "RowKey",
            "RowKey@odata.type\":\"Edm.Guid\",\"RowKey",
            "PartitionKey@odata.type",
            "Timestamp",
            "odata.x",
            "A@x.y",
        ]);
        let member = (name, value).prop_map(|(name, value)| format!("\"{name}\":{value}"));
        prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// R-S04: in turn is as alone, whatever follows what.
        #[test]
        fn r_s04_bodies_in_turn_are_decoded_as_alone(
            bodies in prop::collection::vec(prop_oneof![9 => alike(), 1 => nearly_json()], 1..8),
        ) {
            let mut decoder = EntityDecoder::default();
            for body in &bodies {
                let (found, alone) = (decoder.decode(body.as_bytes()), decode_entity(body.as_bytes()));
                // Debug compares NaN with itself.
                prop_assert_eq!(format!("{found:?}"), format!("{alone:?}"), "{} in {:?}", body, bodies);
            }
        }
    }
}
