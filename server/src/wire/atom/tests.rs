//! Entries as old clients send them, printed and read back, and wrong ones (R-S04).

use proptest::prelude::*;
use tablestone::{DateTime, Entity, Value, Version};

use super::*;
use crate::error::{ErrorCode, ServiceError};
use crate::wire::json::tests_support;
use crate::wire::xml::{Element, Namespace};
use crate::wire::{Context, Select, Written};

const CONTEXT: Context<'static> = Context { base: "http://h/a", account: "a", table: "T" };

fn entry(properties: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
         <entry xmlns:data=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
         xmlns=\"http://www.w3.org/2005/Atom\"><title /><author><name /></author><id />\
         <content type=\"application/xml\">\n  <m:properties>{properties}</m:properties></content></entry>"
    )
}

fn code(properties: &str) -> ErrorCode {
    let error = parse_entity(entry(properties).as_bytes()).expect_err(properties);
    ServiceError::from(error).code()
}

/// The documentation's own sample, whatever the prefixes are.
#[test]
fn an_entry() {
    let body = entry(
        "<data:PartitionKey>p &amp; q</data:PartitionKey><data:RowKey m:type=\"Edm.String\">r</data:RowKey>\
         <data:Timestamp m:type=\"Edm.DateTime\">0001-01-01T00:00:00</data:Timestamp>\
         <data:Address> Mountain View\n</data:Address><data:Age m:type=\"Edm.Int32\">23</data:Age>\
         <data:AmountDue m:type=\"Edm.Double\">200.23</data:AmountDue>\
         <data:BinaryData m:type=\"Edm.Binary\" m:null=\"true\" />\
         <data:CustomerSince m:type=\"Edm.DateTime\">2008-07-10T00:00:00</data:CustomerSince>\
         <data:IsActive m:type=\"Edm.Boolean\">true</data:IsActive>\
         <data:NumOfOrders m:type=\"Edm.Int64\">255</data:NumOfOrders><other>ignored</other>",
    );
    let entity = parse_entity(body.as_bytes()).expect("an entry").with_own_keys().expect("keys");
    let date: DateTime = "2008-07-10T00:00:00Z".parse().expect("a date");
    let expected = Entity::new("p & q", "r")
        .with("Address", " Mountain View\n")
        .with("Age", 23)
        .with("AmountDue", 200.23)
        .with("CustomerSince", date)
        .with("IsActive", true)
        .with("NumOfOrders", 255i64);
    assert_eq!(entity, expected);
    let table = entry("<data:TableName>mytable</data:TableName>");
    assert_eq!(parse_table_name(table.as_bytes()), Ok(Some("mytable".to_owned())));
    assert_eq!(parse_table_name(entry("").as_bytes()), Ok(None));
}

/// Protocol 5: the same codes as for JSON.
#[test]
fn refusals() {
    for (properties, expected) in [
        ("<data:A>1</data:A><data:A>2</data:A>", ErrorCode::DuplicatePropertiesSpecified),
        ("<data:A m:type=\"Edm.Int32\">x</data:A>", ErrorCode::InvalidInput),
        ("<data:A m:type=\"Edm.Decimal\">1</data:A>", ErrorCode::InvalidInput),
        (
            "<data:A m:type=\"Edm.DateTime\">1600-01-01T00:00:00Z</data:A>",
            ErrorCode::OutOfRangeInput,
        ),
        ("<data:RowKey m:type=\"Edm.Int32\">1</data:RowKey>", ErrorCode::InvalidInput),
        ("<data:A>", ErrorCode::InvalidInput),
        ("<data:A>\0</data:A>", ErrorCode::InvalidInput),
        ("<data:A><![CDATA[\u{1}]]></data:A>", ErrorCode::InvalidInput),
    ] {
        assert_eq!(code(properties), expected, "{properties}");
    }
    for body in
        ["", "{}", "<entry/>", "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content/></entry>"]
    {
        assert!(parse_entity(body.as_bytes()).is_err());
    }
}

/// R-S05: an element whose name is none of XML is none, whatever is wrong with it as a property's, as the Java SDK's
/// tests have it; what a name of XML can be, and one of a property cannot, is told where entities are checked.
#[test]
fn r_s05_a_name_that_is_none_of_xml() {
    for name in ["1", "01a", "-a", ".a"] {
        assert_eq!(code(&format!("<data:{name}>1</data:{name}>")), ErrorCode::InvalidInput);
    }
    for name in ["a-1", "a.b", "_x0031_a", "_1"] {
        assert!(parse_entity(entry(&format!("<data:{name}/>")).as_bytes()).is_ok(), "{name}");
    }
}

/// R-S04: whether a property is null is a boolean of XML Schema, in any of its forms, with blanks around it.
#[test]
fn r_s04_null_is_a_boolean_in_any_form() {
    let read = |null: &str| {
        let property = format!("<data:A m:null=\"{null}\">a</data:A>");
        parse_entity(entry(&property).as_bytes()).map(|entity| entity.owned_properties().len())
    };
    for null in ["true", "1", " true ", "&#9;1&#10;"] {
        assert_eq!(read(null), Ok(0), "{null:?}");
    }
    for value in ["false", "0", "\n0&#13;"] {
        assert_eq!(read(value), Ok(1), "{value:?}");
    }
    for wrong in ["", "2", "TRUE", "yes", "true false", "\u{a0}true", "01"] {
        let error = read(wrong).expect_err(wrong);
        let expected = format!("property \"A\": expected true or false of null, found {wrong:?}");
        assert_eq!(error.to_string(), expected);
        assert_eq!(ServiceError::from(error).code(), ErrorCode::InvalidInput, "{wrong:?}");
    }
    let table = entry("<data:TableName m:null=\"1\" />");
    assert_eq!(parse_table_name(table.as_bytes()), Ok(None));
}

/// R-S04: as in JSON, a value that is no text is refused, with the property's name.
#[test]
fn r_s04_markup_in_a_value_is_refused() {
    for (property, inner) in [
        ("<data:A>before<b>bold</b>after</data:A>", "b"),
        ("<data:A><data:Street>Main</data:Street></data:A>", "Street"),
        ("<data:A m:type=\"Edm.Int32\">1<b/></data:A>", "b"),
        ("<data:A m:null=\"true\"><b/></data:A>", "b"),
    ] {
        let error = parse_entity(entry(property).as_bytes()).expect_err(property);
        assert_eq!(error.to_string(), format!("unexpected element {inner} in A"), "{property}");
        assert_eq!(ServiceError::from(error).code(), ErrorCode::InvalidInput, "{property}");
    }
    assert_eq!(code("<data:PartitionKey>p<b/></data:PartitionKey>"), ErrorCode::InvalidInput);
    assert_eq!(code("text<data:A>1</data:A>"), ErrorCode::InvalidInput);
    let table = entry("<data:TableName>my<b>table</b></data:TableName>");
    assert!(parse_table_name(table.as_bytes()).is_err());
    let comment = entry("<data:A>a<!-- b -->c</data:A>");
    let entity = parse_entity(comment.as_bytes()).expect("an entry").owned_properties();
    assert_eq!(entity, [("A".to_owned(), Value::from("ac"))]);
}

/// R-S04: what no XML holds as it is can be written as a reference, as we write it.
#[test]
fn r_s04_what_is_no_character_of_xml_is_refused() {
    for character in ['\u{1}', '\u{fffe}', '\u{ffff}'] {
        for text in [format!("a{character}"), format!("<![CDATA[{character}]]>")] {
            let error = parse_entity(entry(&format!("<data:A>{text}</data:A>")).as_bytes());
            let error = error.expect_err("no XML");
            assert_eq!(ServiceError::from(error).code(), ErrorCode::InvalidInput, "{character:?}");
        }
        let text = format!("<data:A>&#x{:X};</data:A>", u32::from(character));
        let entity = parse_entity(entry(&text).as_bytes()).expect("an entry").owned_properties();
        assert_eq!(entity, [("A".to_owned(), Value::from(character.to_string()))]);
    }
}

/// R-S12: as in JSON, an error does not repeat a name that no entity can have.
#[test]
fn r_s12_errors_are_bounded() {
    for property in [
        "<data:NAME>1</data:NAME>",
        "<data:NAME/><data:NAME/>",
        "<data:NAME m:null='true'/>",
        "<data:NAME m:type='Edm.Nothing'/>",
        "<data:NAME m:null='maybe'/>",
        "<data:NAME m:type='Edm.Int32'>x</data:NAME>",
    ] {
        let long = property.replace("NAME", &"\u{7f}".repeat(1 << 20));
        assert_eq!(code(&long), ErrorCode::PropertyNameTooLong, "{property}");
    }
    for property in ["<data:NAME/><data:NAME/>", "<data:NAME m:type='Edm.Int32'>x</data:NAME>"] {
        let long = entry(&property.replace("NAME", &"n".repeat(64 << 10)));
        let error = parse_entity(long.as_bytes()).unwrap_err().to_string();
        assert!((255..400).contains(&error.len()), "{error}");
    }
}

/// R-S04: white space at either end is said to be meant, or readers may drop it.
#[test]
fn r_s04_space_at_an_end_is_kept() {
    for (text, is_said) in [("a b", false), (" a", true), ("a\n", true), ("", false)] {
        let entity = Entity::new("p", "r").with("A", text);
        let said = printed(&entity, &Select::parse("A").expect("a name"));
        assert_eq!(said.contains("<d:A xml:space=\"preserve\">"), is_said, "{text:?}: {said}");
    }
}

fn printed(entity: &Entity, select: &Select) -> String {
    let version = Version::from_ticks(132_766_592_431_536_324);
    let mut out = Vec::new();
    let updated = DateTime::from(version);
    let printer = AtomPrinter::new(CONTEXT, updated, select);
    printer.single(&mut out, &Written { entity, version }).expect("a sound row");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn a_printed_entry() {
    let entity = Entity::new("p<", "r").with("A", "a & b").with("D", f64::INFINITY);
    let expected = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
        <entry xml:base=\"http://h/a/\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
        xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
        xmlns=\"http://www.w3.org/2005/Atom\" \
        m:etag=\"W/&quot;datetime'2021-09-21T00%3A54%3A03.1536324Z'&quot;\">\
        <id>http://h/a/T(PartitionKey='p%3C',RowKey='r')</id><title type=\"text\"></title>\
        <updated>2021-09-21T00:54:03.1536324Z</updated><author><name /></author>\
        <link rel=\"edit\" title=\"T\" href=\"T(PartitionKey='p%3C',RowKey='r')\" />\
        <category term=\"a.T\" scheme=\"http://schemas.microsoft.com/ado/2007/08/dataservices/scheme\" />\
        <content type=\"application/xml\"><m:properties><d:PartitionKey>p&lt;</d:PartitionKey>\
        <d:RowKey>r</d:RowKey><d:Timestamp m:type=\"Edm.DateTime\">2021-09-21T00:54:03.1536324Z\
        </d:Timestamp><d:A>a &amp; b</d:A><d:D m:type=\"Edm.Double\">INF</d:D>\
        </m:properties></content></entry>";
    assert_eq!(printed(&entity, &Select::ALL), expected);
    let selected = printed(&entity, &Select::parse("Missing,</d:A>,A,RowKey").unwrap());
    assert!(selected.contains("<m:properties><d:Missing m:null=\"true\" /><d:A>a &amp; b</d:A><d:RowKey>r</d:RowKey></m:properties>"));
}

/// R-S04: names with characters that XML lacks are escaped, null or not, and come back.
#[test]
fn r_s04_names_that_xml_lacks_come_back() {
    let names = ["ª", "aµ", "b\u{2054}c", "_x0041_", "_x00AA_x", "d_x0041ª", "größe"];
    let entity = names.iter().fold(Entity::new("p", "r"), |entity, name| entity.with(*name, true));
    let entry = printed(&entity, &Select::ALL);
    assert!(entry.contains("<d:a_x00B5_ m:type=\"Edm.Boolean\">true</d:a_x00B5_>"), "{entry}");
    let again = parse_entity(entry.as_bytes()).expect("our own Atom").owned_properties();
    assert!(again.iter().map(|(name, _)| &**name).eq(names));
    let nulls = printed(&Entity::new("p", "r"), &Select::parse("ª,_x0041_").unwrap());
    let expected = "<d:_x00AA_ m:null=\"true\" /><d:_x005F_x0041_ m:null=\"true\" />";
    assert!(nulls.contains(expected), "{nulls}");
    let twice = "<data:\u{41}/><data:_x0041_/>";
    assert_eq!(code(twice), ErrorCode::DuplicatePropertiesSpecified);
}

#[test]
fn feeds() {
    let select = Select::ALL;
    let printer = AtomPrinter::new(CONTEXT, DateTime::MIN, &select);
    let mut out = Vec::new();
    printer.begin_feed(&mut out);
    for row in ["1", "2"] {
        let entity = Entity::new("p", row).with("N", f64::NAN);
        let written = Written { entity: &entity, version: Version::ZERO };
        printer.feed_entity(&mut out, &written).expect("a sound row");
    }
    printer.end_feed(&mut out);
    let feed = Element::parse(&out).expect("XML");
    assert_eq!((feed.name.as_str(), feed.namespace), ("feed", Namespace::Atom));
    let entries: Vec<_> = feed.children.iter().filter(|child| child.name == "entry").collect();
    assert_eq!(entries.len(), 2);
    let tag = entries[1].attribute(Namespace::Metadata, "etag");
    assert_eq!(tag, Some("W/\"datetime'1601-01-01T00%3A00%3A00Z'\""));

    let tables = print_tables(CONTEXT, DateTime::MIN, ["T1", "T2"]);
    let tables = Element::parse(&tables).expect("XML");
    assert_eq!(tables.children.iter().filter(|child| child.name == "entry").count(), 2);
    let table = print_table(CONTEXT, DateTime::MIN, "T1");
    assert_eq!(parse_table_name(&table), Ok(Some("T1".to_owned())));
}

/// R-S04: a host is what the client says it is, and stays text.
#[test]
fn addresses_are_escaped() {
    let base = "http://h\"<&>/a";
    let context = Context { base, ..CONTEXT };
    let entity = Entity::new("p", "r");
    let written = Written { entity: &entity, version: Version::ZERO };
    let printer = AtomPrinter::new(context, DateTime::MIN, &Select::ALL);
    let (mut entry, mut feed) = (Vec::new(), Vec::new());
    printer.single(&mut entry, &written).expect("a sound row");
    printer.begin_feed(&mut feed);
    printer.feed_entity(&mut feed, &written).expect("a sound row");
    printer.end_feed(&mut feed);
    let table = print_table(context, DateTime::MIN, "T1");
    let tables = print_tables(context, DateTime::MIN, ["T1"]);
    let id = |element: &Element| {
        element.child("id").expect("an id").leaf_text().expect("text").to_owned()
    };
    let inner = |feed: &Element| id(feed.child("entry").expect("an entry"));
    let parse = |bytes: &[u8]| Element::parse(bytes).expect("XML");
    let (of_entity, of_table) = ("T(PartitionKey='p',RowKey='r')", "Tables('T1')");
    assert_eq!(id(&parse(&entry)), format!("{base}/{of_entity}"));
    let feed = parse(&feed);
    assert_eq!((id(&feed), inner(&feed)), (format!("{base}/T"), format!("{base}/{of_entity}")));
    assert_eq!(id(&parse(&table)), format!("{base}/{of_table}"));
    let tables = parse(&tables);
    let expected = (format!("{base}/Tables"), format!("{base}/{of_table}"));
    assert_eq!((id(&tables), inner(&tables)), expected);
}

/// R-S04: what XML has no place for is a reference, which readers that are not strict take, U+FFFE and U+FFFF too.
/// Characters that share bytes with these stay as they are.
#[test]
fn r_s04_what_xml_lacks_is_a_reference() {
    let text = "\u{fffe}a\u{ffff}\u{fffe}\u{1}\u{fffd}\u{effe}\u{10ffff}¿";
    let entry = printed(&Entity::new("p", text).with("A", text), &Select::ALL);
    let expected = "&#xFFFE;a&#xFFFF;&#xFFFE;&#x1;\u{fffd}\u{effe}\u{10ffff}¿";
    assert!(entry.contains(&format!("<d:RowKey>{expected}</d:RowKey>")), "{entry}");
    assert!(entry.contains(&format!("<d:A>{expected}</d:A>")), "{entry}");
    let again = parse_entity(entry.as_bytes()).expect("our own Atom").owned_properties();
    assert!(again.contains(&("A".to_owned(), Value::String(text.to_owned()))));
}

proptest! {
    /// What is printed is read back as the same entity, as far as XML has the characters.
    #[test]
    fn printed_entries_come_back(entity in tests_support::entity("[^\0-\u{1f}\u{fffe}\u{ffff}]{0,20}")) {
        let again = parse_entity(printed(&entity, &Select::ALL).as_bytes()).expect("our own Atom");
        let again = again.with_own_keys().expect("keys");
        prop_assert_eq!(format!("{entity:?}"), format!("{again:?}"));
    }

    /// Line ends stay what they are, and other control characters too, which XML has no place for.
    #[test]
    fn line_ends_come_back(text in "[a\r\n\t \u{1}\u{1f}]{0,12}") {
        let entity = Entity::new("p", "r").with("A", text.as_str());
        let again = parse_entity(printed(&entity, &Select::ALL).as_bytes()).expect("our own Atom");
        prop_assert_eq!(again.owned_properties(), [("A".to_owned(), Value::String(text))]);
    }

    #[test]
    fn any_bytes(properties in any::<String>(), cut in 0usize..900) {
        let body = entry(&properties);
        let _ = parse_entity(body.as_bytes());
        let _ = parse_entity(body.as_bytes().get(..cut).unwrap_or_default());
    }
}

/// R-S04: what stands around the entries of a feed: when it was made, and where it is.
#[test]
fn r_s04_a_printed_feed() {
    let around = |table: &str| {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
             <feed xml:base=\"http://h/a/\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
             xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
             xmlns=\"http://www.w3.org/2005/Atom\">\
             <title type=\"text\">{table}</title><id>http://h/a/{table}</id>\
             <updated>2021-09-21T00:54:03.1536324Z</updated>\
             <link rel=\"self\" title=\"{table}\" href=\"{table}\" />"
        )
    };
    let updated = DateTime::from(Version::from_ticks(132_766_592_431_536_324));
    let text = |out| String::from_utf8(out).expect("UTF-8");
    let (select, mut out) = (Select::ALL, Vec::new());
    let printer = AtomPrinter::new(CONTEXT, updated, &select);
    printer.begin_feed(&mut out);
    printer.end_feed(&mut out);
    // Atom demands an author of a feed whose entries state none.
    let empty = "<author><name /></author></feed>";
    assert_eq!(text(out), around("T") + empty);
    assert_eq!(text(print_tables(CONTEXT, updated, [])), around("Tables") + empty);

    let tables = text(print_tables(CONTEXT, updated, ["One"]));
    let entry = "<entry><id>http://h/a/Tables('One')</id><title type=\"text\"></title>\
        <updated>2021-09-21T00:54:03.1536324Z</updated><author><name /></author>\
        <link rel=\"edit\" title=\"Tables\" href=\"Tables('One')\" />\
        <category term=\"a.Tables\" scheme=\"http://schemas.microsoft.com/ado/2007/08/dataservices/scheme\" />\
        <content type=\"application/xml\"><m:properties><d:TableName>One</d:TableName></m:properties>\
        </content></entry>";
    assert_eq!(tables, around("Tables") + entry + "</feed>");
}
