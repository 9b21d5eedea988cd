//! Service properties: what Get and Set Table Service Properties carry (protocol 1). All of it is
//! stored and returned; of what it sets, the cross-origin rules have an effect here.

use super::cors::{CorsRule, check_cors, parse_cors, print_cors};
use super::error::XmlError;
use super::print::{DECLARATION, element};
use super::tree::Element;
use crate::wire::put;

/// Days that logs and metrics may be kept.
const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=365;
const EXPECTED_DAYS: &str = "1 to 365 days";

/// The settings of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// Which requests are logged.
    pub logging: Logging,
    /// Metrics by the hour.
    pub hour_metrics: Metrics,
    /// Metrics by the minute.
    pub minute_metrics: Metrics,
    /// Cross-origin rules, in the order in which they are tried.
    pub cors: Vec<CorsRule>,
}

/// The settings a Set Table Service Properties changes; the others stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePropertiesUpdate {
    /// As in [`ServiceProperties`].
    pub logging: Option<Logging>,
    /// As in [`ServiceProperties`].
    pub hour_metrics: Option<Metrics>,
    /// As in [`ServiceProperties`].
    pub minute_metrics: Option<Metrics>,
    /// As in [`ServiceProperties`].
    pub cors: Option<Vec<CorsRule>>,
}

impl ServicePropertiesUpdate {
    /// Refuses settings that the service would not take, though they can be read.
    ///
    /// # Errors
    /// [`XmlError::Value`] for cross-origin rules beyond their limits.
    pub fn check(&self) -> Result<(), XmlError> {
        self.cors.as_deref().map_or(Ok(()), check_cors)
    }
}

impl ServiceProperties {
    /// Changes what the update has.
    pub fn apply(&mut self, update: ServicePropertiesUpdate) {
        fn set<T>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut self.logging, update.logging);
        set(&mut self.hour_metrics, update.hour_metrics);
        set(&mut self.minute_metrics, update.minute_metrics);
        set(&mut self.cors, update.cors);
    }
}

/// Which requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Version of the log's form.
    pub version: String,
    /// Whether deletions are.
    pub delete: bool,
    /// Whether queries are.
    pub read: bool,
    /// Whether other writes are.
    pub write: bool,
    /// How long logs are kept.
    pub retention: Retention,
}

impl Default for Logging {
    fn default() -> Self {
        let version = "1.0".to_owned();
        Self { version, delete: false, read: false, write: false, retention: Retention::Forever }
    }
}

/// Which metrics are gathered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Version of the metrics' form.
    pub version: String,
    /// None if they are not gathered; else whether they are by operation.
    pub include_apis: Option<bool>,
    /// How long they are kept.
    pub retention: Retention,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { version: "1.0".to_owned(), include_apis: None, retention: Retention::Forever }
    }
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Until somebody deletes it.
    #[default]
    Forever,
    /// That many days, 1 to 365.
    Days(u32),
}

/// The body of Set Table Service Properties.
///
/// # Errors
/// [`XmlError`]: [`XmlError::Value`] for a wrong value, [`XmlError::OutOfRange`] for days that are too few
/// or too many.
pub fn parse_properties(body: &[u8]) -> Result<ServicePropertiesUpdate, XmlError> {
    let root = Element::parse(body)?;
    if root.name != "StorageServiceProperties" {
        return Err(XmlError::Unexpected { parent: String::new(), found: root.name });
    }
    if root.children.is_empty() {
        return Err(XmlError::Missing { parent: root.name, expected: "of a property" });
    }
    // Metrics is what HourMetrics was called before 2013-08-15.
    root.only(&["Logging", "Metrics", "HourMetrics", "MinuteMetrics", "Cors"])?;
    let hour = root.child("HourMetrics").or_else(|| root.child("Metrics"));
    Ok(ServicePropertiesUpdate {
        logging: root.child("Logging").map(logging).transpose()?,
        hour_metrics: hour.map(metrics).transpose()?,
        minute_metrics: root.child("MinuteMetrics").map(metrics).transpose()?,
        cors: root.child("Cors").map(parse_cors).transpose()?,
    })
}

fn version(element: &Element) -> Result<String, XmlError> {
    let version = element.required("Version")?;
    match version.leaf_text()?.trim() {
        text @ ("1.0" | "2.0") => Ok(text.to_owned()),
        _ => Err(version.wrong("version 1.0")),
    }
}

fn logging(element: &Element) -> Result<Logging, XmlError> {
    element.only(&["Version", "Delete", "Read", "Write", "RetentionPolicy"])?;
    Ok(Logging {
        version: version(element)?,
        delete: element.required("Delete")?.boolean()?,
        read: element.required("Read")?.boolean()?,
        write: element.required("Write")?.boolean()?,
        retention: retention(element.required("RetentionPolicy")?)?,
    })
}

fn metrics(element: &Element) -> Result<Metrics, XmlError> {
    element.only(&["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    let enabled = element.required("Enabled")?.boolean()?;
    let include_apis = element.optional("IncludeAPIs").map(Element::boolean).transpose()?;
    Ok(Metrics {
        version: version(element)?,
        include_apis: enabled.then(|| include_apis.unwrap_or_default()),
        retention: element.child("RetentionPolicy").map_or(Ok(Retention::Forever), retention)?,
    })
}

fn retention(element: &Element) -> Result<Retention, XmlError> {
    element.only(&["Enabled", "Days"])?;
    if !element.required("Enabled")?.boolean()? {
        return match element.optional("Days") {
            None => Ok(Retention::Forever),
            Some(days) => Err(days.out_of_range("nothing where Enabled is false")),
        };
    }
    let days = element.required("Days")?;
    let number: i64 = days.leaf_text()?.trim().parse().map_err(|_| days.wrong(EXPECTED_DAYS))?;
    let number = u32::try_from(number).ok().filter(|number| RETENTION_DAYS.contains(number));
    number.map(Retention::Days).ok_or_else(|| days.out_of_range(EXPECTED_DAYS))
}

/// The body of Get Table Service Properties.
#[must_use]
pub fn print_properties(properties: &ServiceProperties) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    put(&mut out, &["<StorageServiceProperties>"]);
    print_logging(&mut out, &properties.logging);
    print_metrics(&mut out, "HourMetrics", &properties.hour_metrics);
    print_metrics(&mut out, "MinuteMetrics", &properties.minute_metrics);
    print_cors(&mut out, &properties.cors);
    put(&mut out, &["</StorageServiceProperties>"]);
    out
}

/// The body of Get Table Service Properties before 2013-08-15, when metrics were by the hour only, and
/// there were no cross-origin rules.
#[must_use]
pub fn print_old_properties(properties: &ServiceProperties) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    put(&mut out, &["<StorageServiceProperties>"]);
    print_logging(&mut out, &properties.logging);
    print_metrics(&mut out, "Metrics", &properties.hour_metrics);
    put(&mut out, &["</StorageServiceProperties>"]);
    out
}

fn print_logging(out: &mut Vec<u8>, logging: &Logging) {
    put(out, &["<Logging>"]);
    element(out, "Version", &logging.version);
    for (name, value) in
        [("Read", logging.read), ("Write", logging.write), ("Delete", logging.delete)]
    {
        boolean(out, name, value);
    }
    print_retention(out, logging.retention);
    put(out, &["</Logging>"]);
}

fn print_metrics(out: &mut Vec<u8>, name: &str, metrics: &Metrics) {
    put(out, &["<", name, ">"]);
    element(out, "Version", &metrics.version);
    boolean(out, "Enabled", metrics.include_apis.is_some());
    if let Some(include_apis) = metrics.include_apis {
        boolean(out, "IncludeAPIs", include_apis);
    }
    print_retention(out, metrics.retention);
    put(out, &["</", name, ">"]);
}

fn print_retention(out: &mut Vec<u8>, retention: Retention) {
    put(out, &["<RetentionPolicy>"]);
    match retention {
        Retention::Forever => boolean(out, "Enabled", false),
        Retention::Days(days) => {
            boolean(out, "Enabled", true);
            element(out, "Days", &days.to_string());
        }
    }
    put(out, &["</RetentionPolicy>"]);
}

fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    element(out, name, if value { "true" } else { "false" });
}
