//! Every word a person reads, and every word the runtime says to a model, in English and Chinese.
//!
//! The words live in `messages/*.ftl`; code names them by id through [`t!`] or [`text`]. Ids,
//! languages and variables are held together by this crate's tests, which also read the rest of
//! the workspace: a missing key is found there and not by a user. [`truncate_columns`] and its
//! neighbours prepare text for terminals.

mod arg;
mod columns;
mod message;
mod outcome;

pub use arg::Arg;
pub use columns::{columns, one_line, pad_columns, strip_sequences, truncate_columns};
pub use message::{Source, lang_from, sources, text};
pub use outcome::outcome_error;
pub use sortie_base::truncate::{first_chars, truncate_middle};
pub use sortie_core::Lang;

/// Says the message of this id: `t!(lang, "task-started", label = label, id = id)`.
#[macro_export]
macro_rules! t {
    ($lang:expr, $id:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::text($lang, $id, &[$((stringify!($name), $crate::Arg::from($value))),*])
    };
}
