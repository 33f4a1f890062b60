//! Failures inside a transition, before the port's error is built.

use std::error::Error;

use sortie_core::id::RunId;
use sortie_core::ports::store::StoreError;

#[cfg(feature = "postgres")]
use crate::sql::postgres;

pub(crate) type Done<T> = Result<T, Fault>;

/// Why a transition failed.
#[derive(Debug)]
pub enum Fault {
    /// The store rejected it.
    Refused(StoreError),
    /// The database failed, or contains data that cannot be read.
    Broken(Box<dyn Error + Send + Sync>),
}

impl Fault {
    /// Converts into the port's error.
    pub(crate) fn while_doing(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Broken(source) => StoreError::Failed { doing, source },
        }
    }

    /// Whether the stored data is damaged, so that a retry gives the same result.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Broken(source) => {
                let code = source
                    .downcast_ref::<rusqlite::Error>()
                    .and_then(rusqlite::Error::sqlite_error_code);
                if code == Some(rusqlite::ErrorCode::DatabaseCorrupt) {
                    return true;
                }
                #[cfg(feature = "postgres")]
                if postgres::is_damage(source.as_ref()) {
                    return true;
                }
                false
            }
        }
    }

    /// Whether running the transaction again may succeed. SQLite has one writer, which waits.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Broken(source) => postgres::is_transient(source.as_ref()),
            #[cfg(not(feature = "postgres"))]
            Self::Broken(_) => false,
            Self::Refused(_) => false,
        }
    }

    /// Whether the database is away, and may be back later.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Broken(source) => postgres::is_outage_of(source.as_ref()),
            #[cfg(not(feature = "postgres"))]
            Self::Broken(_) => false,
            Self::Refused(_) => false,
        }
    }

    pub(crate) fn not_found(run: RunId) -> Self {
        Self::Refused(StoreError::NotFound(run.to_string()))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

macro_rules! broken_by {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::Broken(Box::new(error))
            }
        })+
    };
}

#[cfg(feature = "postgres")]
broken_by!(::postgres::Error);
broken_by!(rusqlite::Error, serde_json::Error);
