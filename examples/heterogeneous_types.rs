//! Several kinds of entity in one partition (design guide, "Working with heterogeneous entity
//! types"; white paper, §8.3.3).
//!
//! A table has no schema: entities of a partition may have nothing in common but their keys. So
//! what is read together, or has to change together, may live together. Here a user's photos and
//! blogs, and the comments on them, share the user's partition, newest first; a comment's RowKey is
//! its blog's with more behind it, so that one scan has each blog and then its comments.
//!
//! The table stores no type marker; the property `EntityType` is one by agreement. A kind that is
//! often read alone may rather be a prefix of the RowKey: then it is a range of keys, not a filter.
//!
//! `cargo run --release --example heterogeneous_types`

use std::error::Error;

use tablestone::{
    Database, DateTime, Entity, EntityBatch, EntityTable, Error as TableError, Filter, Options,
    Precondition,
};

const USER: &str = "jim";
const DAY: u64 = 864_000_000_000;

/// What an entity of the partition is, by its marker.
enum Item {
    Photo { caption: String, uri: String },
    Blog { caption: String, text: String, comments: i32 },
    Comment { author: String, text: String },
}

impl TryFrom<&Entity> for Item {
    type Error = String;

    fn try_from(entity: &Entity) -> Result<Self, String> {
        let missing = |name| format!("{:?} has no String {name}", entity.row_key());
        let text = |name| entity.get_as::<String>(name).ok_or_else(|| missing(name));
        match entity.get_as("EntityType") {
            Some("Photo") => Ok(Self::Photo { caption: text("Caption")?, uri: text("Uri")? }),
            Some("Blog") => Ok(Self::Blog {
                caption: text("Caption")?,
                text: text("Text")?,
                comments: entity.get_as("CommentCount").unwrap_or_default(),
            }),
            Some("Comment") => Ok(Self::Comment { author: text("Author")?, text: text("Text")? }),
            other => Err(format!("{:?} is of a kind unknown here: {other:?}", entity.row_key())),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let items = database.create_table("SocialNetwork").wait()?.entities();
    let begin: DateTime = "2008-10-01T10:00:00Z".parse()?;

    // All kinds of one user in one transaction.
    let mut batch = EntityBatch::new(USER);
    for n in 0..300 {
        batch.insert(&item(begin, n));
        if batch.len() == 100 {
            items.commit(std::mem::replace(&mut batch, EntityBatch::new(USER))).wait()?;
        }
    }
    let newest_blog = newest_first(begin, 299);
    for (author, text) in [("ann", "Where was that?"), ("ken", "I was there too!")] {
        comment(&items, &newest_blog, author, text)?;
    }

    println!("{USER}'s home page, all kinds, newest first:");
    for entity in items.query().partition(USER).top(7).entities() {
        match Item::try_from(&entity?)? {
            Item::Photo { caption, uri } => println!("  photo    {caption} <{uri}>"),
            Item::Blog { caption, text, comments } => {
                println!("  blog     {caption}: {text} ({comments} comments)");
            }
            Item::Comment { author, text } => println!("    {author}: {text}"),
        }
    }

    println!("\n{:<46} {:>6} {:>9}  plan", "what is asked", "found", "examined");
    let in_partition = Filter::partition_key().eq(USER);
    let photos = Filter::property("EntityType").eq("Photo");
    show("photos: a filter on their marker", &items, in_partition.clone().and(photos))?;
    let thread =
        Filter::row_key().ge(&*newest_blog).and(Filter::row_key().lt(format!("{newest_blog}`")));
    show("a blog and its comments: a range of keys", &items, in_partition.clone().and(thread))?;
    show(
        "what has a Uri: kinds without it do not match",
        &items,
        in_partition.and(Filter::property("Uri").ge("")),
    )?;

    println!("\nCaption and Text of all kinds; what a kind lacks is null:");
    let selected = items.query().partition(USER).select(["Caption", "Text"]).top(5).page()?;
    for entity in &selected {
        let caption = entity.get_as::<&str>("Caption")?.unwrap_or("null");
        let text = entity.get_as::<&str>("Text")?.unwrap_or("null");
        println!("  {:<28} {caption:<12} {text}", entity.row_key());
    }
    Ok(())
}

fn newest_first(begin: DateTime, n: u64) -> String {
    format!("{:019}", DateTime::MAX.ticks() - begin.ticks() - n * DAY)
}

/// Every third item is a blog, the others are photos.
fn item(begin: DateTime, n: u64) -> Entity {
    let common = Entity::new(USER, newest_first(begin, n))
        .with("Caption", format!("Day {n}"))
        .with("CreatedOn", DateTime::from_ticks(begin.ticks() + n * DAY));
    if n % 3 == 2 {
        let text = ["Went hiking", "Met friends", "Rain again"][n as usize / 3 % 3];
        common.with("EntityType", "Blog").with("Text", text).with("CommentCount", 0)
    } else {
        common.with("EntityType", "Photo").with("Uri", format!("http://photos.example/{n}.jpg"))
    }
}

/// Adds a comment, and counts it at its blog: both or none, and no count is lost, whoever else
/// comments at the same time.
fn comment(
    items: &EntityTable,
    blog: &str,
    author: &str,
    text: &str,
) -> Result<(), Box<dyn Error>> {
    loop {
        let read = items.get(USER, blog)?.ok_or("there is no such blog")?;
        let count: i32 = read.get_as("CommentCount").ok_or("this is no blog")?;
        let row_key = format!("{blog}_{count:05}");
        let unchanged = read.version().map_or(Precondition::Exists, Precondition::Version);
        let comment = Entity::new(USER, row_key).with("EntityType", "Comment");
        let mut batch = EntityBatch::new(USER);
        batch
            .insert(&comment.with("Author", author).with("Text", text))
            .merge(&Entity::new(USER, blog).with("CommentCount", count + 1), unchanged);
        match items.commit(batch).wait() {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn show(what: &str, items: &EntityTable, filter: Filter) -> Result<(), TableError> {
    let query = items.query().filter(filter);
    let plan = query.explain().plan();
    let page = query.page()?;
    println!("{what:<46} {:>6} {:>9}  {plan:?}", page.len(), page.examined());
    Ok(())
}
