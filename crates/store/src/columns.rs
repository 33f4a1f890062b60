//! The columns of a query, and where each is in its rows.
//!
//! SQLite finds a column by its name with a comparison for each column before it, which was a tenth
//! of what a page of records cost. Here the compiler finds it: a list of names is the text of the
//! query and the order of its columns at once, so that the two cannot come apart.

/// The columns of a query, in order.
#[derive(Debug)]
pub(crate) struct Columns {
    /// As the query names them.
    pub(crate) sql: &'static str,
    /// Each by itself.
    pub(crate) names: &'static [&'static str],
}

impl Columns {
    /// Where a column is. Used in constants, so a column that is not there does not compile.
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

/// Whether two texts are equal, for the compiler: `==` is not constant yet.
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

/// Makes [`Columns`] of their names.
macro_rules! columns {
    ($first:literal $(, $more:literal)* $(,)?) => {
        $crate::columns::Columns {
            sql: concat!($first $(, ", ", $more)*),
            names: &[$first $(, $more)*],
        }
    };
}

pub(crate) use columns;
