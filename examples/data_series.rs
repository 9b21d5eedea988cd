//! A data series in one entity: a day's messages of an employee are one entity with a property for
//! each hour, instead of 24 entities (design guide, "Data series pattern").
//!
//! Use it for values that are written one at a time and read together: a merge writes one property
//! and keeps the others, and the chart of a day is one point read. Counting with several writers
//! takes the ETag: each reads the series, merges its hour plus one, and starts again if somebody
//! was faster. A series has up to 252 points, the properties that an entity may have.
//!
//! `cargo run --release --example data_series`

use std::error::Error;

use tablestone::{
    Database, Entity, EntityTable, Error as TableError, Filter, Options, Precondition,
};

const EMPLOYEE: &str = "000456";
const DAY: &str = "2014-08-22";
const WRITERS: usize = 3;
/// Messages of each hour of a working day.
const MESSAGES: [usize; 24] =
    [0, 0, 0, 0, 0, 1, 0, 4, 15, 22, 25, 18, 9, 12, 21, 19, 16, 10, 5, 2, 3, 0, 1, 0];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path(), Options::default())?;
    let series = database.create_table("MessageSeries").wait()?.entities();
    let rows = database.create_table("MessageRows").wait()?.entities();

    // The messages come to several mail servers, each of which counts what it has.
    let all: Vec<usize> =
        (0..24).flat_map(|hour| std::iter::repeat_n(hour, MESSAGES[hour])).collect();
    let retries = std::thread::scope(|scope| {
        let count_some = |writer: usize| {
            let (series, all) = (&series, &all);
            let mine = all.iter().skip(writer).step_by(WRITERS);
            scope.spawn(move || mine.map(|hour| count(series, *hour)).sum::<Result<usize, _>>())
        };
        let writers: Vec<_> = (0..WRITERS).map(count_some).collect();
        let joined = writers.into_iter().map(|writer| writer.join().map_err(|_| "a writer failed"));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let retries: usize = retries.into_iter().sum::<Result<_, _>>()?;
    println!(
        "{WRITERS} writers counted {} messages, and started again {retries} times\n",
        all.len()
    );

    // For comparison: each hour an entity of its own.
    for (hour, messages) in MESSAGES.iter().enumerate() {
        let row = Entity::new(EMPLOYEE, format!("{DAY}T{hour:02}"));
        rows.insert(&row.with("Messages", *messages as i32)).wait()?;
    }

    println!("{:<22} {:>8} {:>8}  plan", "a chart of the day is", "entities", "examined");
    let day = format!("RowKey eq '{DAY}'");
    show("one entity", &series, &day)?;
    let day = format!("RowKey ge '{DAY}T00' and RowKey le '{DAY}T23'");
    show("an entity an hour", &rows, &day)?;

    println!("\nmessages of {EMPLOYEE} on {DAY}");
    let chart = series.get(EMPLOYEE, DAY)?.ok_or("the series was written")?;
    for (hour, expected) in MESSAGES.iter().enumerate() {
        let counted = chart.get_as::<i32>(&property(hour)).unwrap_or_default() as usize;
        if counted > 0 {
            println!("{hour:02} {counted:>3} {}", "#".repeat(counted));
        }
        assert_eq!(counted, *expected, "messages of hour {hour} were lost");
    }
    Ok(())
}

fn property(hour: usize) -> String {
    format!("Hour{hour:02}")
}

/// Counts a message; how often another writer was faster.
fn count(series: &EntityTable, hour: usize) -> Result<usize, TableError> {
    let name = property(hour);
    for retries in 0.. {
        let read = series.get(EMPLOYEE, DAY)?;
        let counted: i32 = read.as_ref().and_then(|row| row.get_as(&name)).unwrap_or_default();
        let unchanged = Precondition::from(read.as_ref().and_then(Entity::version));
        // Only the one property is sent; the merge keeps the other 23.
        let point = Entity::new(EMPLOYEE, DAY).with(&*name, counted + 1);
        match series.merge(&point, unchanged).wait() {
            Ok(_) => return Ok(retries),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the loop only ends by returning")
}

fn show(schema: &str, table: &EntityTable, rows: &str) -> Result<(), Box<dyn Error>> {
    let filter: Filter = format!("PartitionKey eq '{EMPLOYEE}' and {rows}").parse()?;
    let query = table.query().filter(filter);
    let plan = query.explain().plan();
    let page = query.page()?;
    println!("{schema:<22} {:>8} {:>8}  {plan:?}", page.len(), page.examined());
    Ok(())
}
