//! [`PagePrinter`]: entities one after the other, most with the same properties.
//!
//! What stands before each value (the name, escaped, and the type that is stated) is made for the
//! first entity and kept as long as names stay the same; where a value has another type it is made
//! anew. What stands around the RowKey is kept as long as partition and version stay the same. A page
//! prints as entities one by one would.

use tablestone::{
    DateTime, EntityRef, RowError, Shape, ValueRef, ValueType, ValueVisitor, Version,
};

use super::encode::{EntityPrinter, end_annotation, push_value};
use super::sink::{ROOM, RowWriter, Sink};

/// Prints the entities of a page, between [`EntityPrinter::begin_page`] and
/// [`EntityPrinter::end_page`].
#[derive(Debug)]
pub struct PagePrinter<'a> {
    printer: EntityPrinter<'a>,
    around: Around,
    known: Option<Known>,
    /// Where each row is put together.
    buffer: [u8; ROOM],
}

/// What stands around the RowKeys of entities that were written together.
#[derive(Debug)]
struct Around {
    version: Version,
    partition_key: String,
    before: Vec<u8>,
    /// Empty before the first entity.
    after: Vec<u8>,
}

/// What stands before the values of entities of one shape.
#[derive(Debug)]
struct Known {
    shape: Shape,
    text: Vec<u8>,
    members: Vec<Member>,
}

/// What stands before the values of one property.
#[derive(Clone, Copy, Debug)]
struct Member {
    value_type: ValueType,
    annotated: bool,
    /// Where the name, quoted, begins in its text, after what states the type.
    name: usize,
    /// The length of its text, which ends with a colon and begins where that of the member before ends.
    len: usize,
}

impl<'a> PagePrinter<'a> {
    /// Prints entities as `printer` does.
    #[must_use]
    pub const fn new(printer: EntityPrinter<'a>) -> Self {
        let around = Around {
            version: Version::ZERO,
            partition_key: String::new(),
            before: Vec::new(),
            after: Vec::new(),
        };
        Self { printer, around, known: None, buffer: [0; ROOM] }
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn entity(&mut self, out: &mut Vec<u8>, entity: &EntityRef<'_>) -> Result<(), RowError> {
        if !self.printer.prints_all() {
            return self.printer.page_entity(out, entity);
        }
        let began = out.len();
        // After the bracket that opens the page comes the first.
        if out.last() == Some(&b'}') {
            out.push(b',');
        }
        self.push_members(out, entity).inspect_err(|_| out.truncate(began))
    }

    fn push_members(&mut self, out: &mut Vec<u8>, entity: &EntityRef<'_>) -> Result<(), RowError> {
        let Self { printer, around, known, buffer } = self;
        if !around.is_for(printer, entity) {
            around.make(printer, entity);
        }
        let known = match known {
            Some(known) if entity.has_shape(&known.shape) => known,
            outdated => outdated.insert(Known::of(printer, entity)?),
        };
        let mut row = RowWriter::new(out, buffer);
        row.put(&around.before);
        row.string(entity.row_key());
        row.put(&around.after);
        let members = known.members.iter();
        entity.each_value(&mut Values { printer, members, text: &known.text, row: &mut row })?;
        row.put(b"}");
        row.finish();
        Ok(())
    }
}

/// Prints the values of an entity, each after what stands before it.
struct Values<'v, 'b> {
    printer: &'v EntityPrinter<'v>,
    members: std::slice::Iter<'v, Member>,
    /// What stands before the values of these members.
    text: &'v [u8],
    row: &'v mut RowWriter<'b>,
}

impl<'a> ValueVisitor<'a> for Values<'_, '_> {
    // Always: a page takes an eighth more instructions where types are looked up.
    #[inline(always)]
    fn visit(&mut self, value: ValueRef<'a>) {
        let Some(member) = self.members.next() else { return };
        let (before, after) = self.text.split_at_checked(member.len).unwrap_or_default();
        self.text = after;
        if member.is_for(self.printer, value) {
            self.row.put(before);
        } else {
            let name = before.get(member.name..).unwrap_or_default();
            push_before_other(self.row.body(), self.printer, name, value);
        }
        push_value(self.row, value);
    }
}

impl Around {
    fn is_for(&self, printer: &EntityPrinter<'_>, entity: &EntityRef<'_>) -> bool {
        self.version == entity.version()
            && !self.after.is_empty()
            && self.partition_key == entity.partition_key()
            && printer.omits_addresses()
    }

    fn make(&mut self, printer: &EntityPrinter<'_>, entity: &EntityRef<'_>) {
        let mut buffer = [0; DateTime::MAX_TEXT_LENGTH];
        let timestamp = DateTime::from(entity.version()).encode(&mut buffer);
        self.version = entity.version();
        self.partition_key.clear();
        self.partition_key.push_str(entity.partition_key());
        self.before.clear();
        self.before.push(b'{');
        printer.push_before_row_key(&mut self.before, entity, timestamp);
        self.after.clear();
        printer.push_after_row_key(&mut self.after, timestamp);
        // Each property brings the comma before it.
        self.after.pop();
    }
}

impl Known {
    #[cold]
    fn of(printer: &EntityPrinter<'_>, entity: &EntityRef<'_>) -> Result<Self, RowError> {
        let mut known = Self {
            shape: entity.shape(),
            text: Vec::new(),
            members: Vec::with_capacity(entity.len()),
        };
        for property in entity.properties() {
            let (name, value) = property?;
            let (value_type, annotated) = (value.value_type(), printer.annotates(value));
            let began = known.text.len();
            known.text.push(b',');
            let name = printer.push_name(&mut known.text, name, value) - began;
            let len = known.text.len() - began;
            known.members.push(Member { value_type, annotated, name, len });
        }
        Ok(known)
    }
}

/// What stands before a value of another type than the member's, whose name is this.
#[cold]
fn push_before_other(
    out: &mut Vec<u8>,
    printer: &EntityPrinter<'_>,
    name: &[u8],
    value: ValueRef<'_>,
) {
    out.push(b',');
    if printer.annotates(value) {
        out.extend_from_slice(name.strip_suffix(b":").unwrap_or_default());
        end_annotation(out, value.value_type());
    }
    out.extend_from_slice(name);
}

impl Member {
    #[inline]
    fn is_for(&self, printer: &EntityPrinter<'_>, value: ValueRef<'_>) -> bool {
        // Whether a type is stated follows from it, but for Doubles that are no numbers.
        self.value_type == value.value_type()
            && (self.value_type != ValueType::Double || self.annotated == printer.annotates(value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tablestone::{Database, Entity, Options};

    use super::super::tests_support;
    use super::*;
    use crate::headers::Metadata;
    use crate::wire::{Context, Select};

    /// The entities, one by one and as a page.
    fn printed(entities: &[Entity], metadata: Metadata, select: &Select) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Options::default()).unwrap();
        let table = database.create_table("t").wait().unwrap().entities();
        // Two at a time have a version.
        for pair in entities.chunks(2) {
            table.import(pair.iter().cloned()).unwrap();
        }
        let page = table.query().page().unwrap();
        let context = Context { base: "http://h/a", account: "a", table: "t" };
        let printer = EntityPrinter::new(context, metadata, select);
        let mut pages = PagePrinter::new(printer);
        let (mut one_by_one, mut as_page) = (b"[".to_vec(), b"[".to_vec());
        for entity in &page {
            printer.page_entity(&mut one_by_one, &entity).unwrap();
            pages.entity(&mut as_page, &entity).unwrap();
        }
        (String::from_utf8(one_by_one).unwrap(), String::from_utf8(as_page).unwrap())
    }

    const LEVELS: [Metadata; 3] = [Metadata::None, Metadata::Minimal, Metadata::Full];

    /// R-S04: whatever follows what: other types under the same names, numbers that are none, other
    /// names, no properties.
    #[test]
    fn r_s04_a_page_prints_as_its_entities_do() {
        let entity = |row: &str| Entity::new(if row < "4" { "p\"" } else { "q" }, row);
        let entities = [
            entity("1").with("N", 1i64).with("D", 1.0).with("B", true),
            entity("2").with("N", 2i64).with("D", f64::NAN).with("B", false),
            entity("3").with("N", 3).with("D", f64::INFINITY).with("B", "text"),
            entity("4"),
            entity("5").with("D", 1.5).with("N", 5i64),
            entity("6").with("D", 2.5).with("N", "6"),
        ];
        for metadata in LEVELS {
            for select in [Select::ALL, Select::parse("N,RowKey,None").unwrap()] {
                let (one_by_one, as_page) = printed(&entities, metadata, &select);
                assert_eq!(as_page, one_by_one);
                assert_eq!(as_page.matches('{').count(), entities.len());
            }
        }
    }

    /// R-S04: of whatever length texts are, and wherever they leave the room in which a row is put
    /// together.
    #[test]
    fn r_s04_long_rows_print_as_their_entities_do() {
        let lengths = (0..90).chain(ROOM - 250..ROOM + 20);
        let entities = lengths.map(|length| {
            let (text, row) = ("x".repeat(length), format!("{length:05}"));
            let entity = Entity::new("p", row).with("A", &*text).with("B", format!("{text}\n"));
            entity.with("C", -(length as i64)).with("D", text.into_bytes()).with("E", 0.25)
        });
        let entities: Vec<_> = entities.collect();
        for metadata in LEVELS {
            let (one_by_one, as_page) = printed(&entities, metadata, &Select::ALL);
            assert_eq!(as_page, one_by_one);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn r_s04_any_page_prints_as_its_entities_do(
            entities in prop::collection::vec(tests_support::entity("[a-zé\"\n]{0,6}"), 1..10),
        ) {
            for metadata in LEVELS {
                let (one_by_one, as_page) = printed(&entities, metadata, &Select::ALL);
                prop_assert_eq!(as_page, one_by_one);
            }
        }
    }
}
