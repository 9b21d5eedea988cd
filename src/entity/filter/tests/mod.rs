//! The filter language, its meaning.

mod generate;
mod language;
mod meaning;
