//! The filter language, its meaning, and the plans made of it.

mod generate;
mod language;
mod meaning;
mod plans;
