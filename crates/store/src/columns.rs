//! Columns of a query and their positions.
//!
//! SQLite finds a column by name with a string comparison for each column before it, which was a
//! tenth of the cost of a page of records. Here the compiler finds the position: one list of names
//! is both the text of the query and the order of its columns, so the two cannot diverge.

#[derive(Debug)]
pub(crate) struct Columns {
    /// The names as a list in SQL.
    pub(crate) sql: &'static str,
    pub(crate) names: &'static [&'static str],
}

impl Columns {
    /// Returns the position of a column. Used in constants, so an unknown name does not compile.
    pub(crate) const fn at(&self, wanted: &str) -> usize {
        let mut position = 0;
        let mut names = self.names;
        while let [name, rest @ ..] = names {
            if same(name, wanted) {
                return position;
            }
            position += 1;
            names = rest;
        }
        panic!("the query has no such column")
    }
}

/// Compares two strings in a constant: `==` is not `const` yet.
const fn same(left: &str, right: &str) -> bool {
    let mut left = left.as_bytes();
    let mut right = right.as_bytes();
    while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
        if *first != *second {
            return false;
        }
        left = left_rest;
        right = right_rest;
    }
    left.is_empty() && right.is_empty()
}

/// Makes [`Columns`] from names.
macro_rules! columns {
    ($first:literal $(, $more:literal)* $(,)?) => {
        $crate::columns::Columns {
            sql: concat!($first $(, ", ", $more)*),
            names: &[$first $(, $more)*],
        }
    };
}

pub(crate) use columns;
