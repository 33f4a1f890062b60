//! The states that people and programs see. Words and spellings are part of the contract.

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$vmeta])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word used in JSON, on the command line and in the store.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        // Not derived: the derive macro does not see a name that comes from this macro.
        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($word),+]))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownWord> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    other => Err($crate::UnknownWord {
                        word: other.to_owned(),
                        expected: [$($word),+].join(", "),
                    }),
                }
            }
        }
    };
}

/// A word that is not in the vocabulary.
#[derive(Debug, thiserror::Error)]
#[error("unknown word {word:?}; expected one of {expected}")]
pub struct UnknownWord {
    /// What was given.
    pub word: String,
    /// What would have been understood.
    pub expected: String,
}

words! {
    /// How far a run has come. Terminal states are sticky.
    Status {
        /// Admitted, never started.
        Pending = "pending",
        /// Started, not ended; see [`WaitingOn`] for what it is doing.
        Running = "running",
        /// Ended with a result.
        Completed = "completed",
        /// Ended without a full result; see [`Reason`].
        Failed = "failed",
        /// Ended by its deadline.
        Timeout = "timeout",
        /// Ended by a person, its parent, or the end of its parent.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether the run can still change.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Completed | Self::Failed | Self::Timeout | Self::Cancelled => true,
        }
    }
}

words! {
    /// Why a run failed.
    Reason {
        /// The model or the runtime gave an error that could not be overcome.
        Error = "error",
        /// The iteration cap was reached.
        MaxIterations = "max_iterations",
        /// The budget was used up.
        Budget = "budget",
        /// The model had nothing to say.
        EmptyResult = "empty_result",
        /// The result did not fit the schema asked for.
        Schema = "schema",
        /// The same call was made over and over.
        Loop = "loop",
        /// What the run needed was refused.
        Denied = "denied",
        /// The run kept dying with its process.
        Interrupted = "interrupted",
    }
}

words! {
    /// What a running run waits for.
    WaitingOn {
        /// An answer of the model.
        Model = "model",
        /// A tool.
        Tool = "tool",
        /// A person's approval.
        Approval = "approval",
        /// An answer to its question.
        Question = "question",
        /// Its children.
        Children = "children",
        /// A free slot in its lane.
        Slot = "slot",
        /// The provider's rate limit.
        RateLimit = "rate_limit",
    }
}

words! {
    /// Whether the result has reached whoever asked for it; apart from execution.
    Delivery {
        /// Nobody waits for it.
        NotRequired = "not_required",
        /// In the outbox, or not finished yet.
        Pending = "pending",
        /// Part of its parent, or accepted outside.
        Delivered = "delivered",
        /// Given up; visible, and can be retried or dismissed.
        Blocked = "blocked",
    }
}

words! {
    /// A named queue with a concurrency limit.
    Lane {
        /// Runs that people start.
        Main = "main",
        /// Runs that other runs start, and background tasks.
        Subagent = "subagent",
    }
}

words! {
    /// How urgent a queued run is; waiting makes any run more urgent.
    Priority {
        /// When nothing else is waiting.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Before the others.
        High = "high",
    }
}

words! {
    /// What happens to the transcript of a finished child. Record, usage and audit always stay.
    Cleanup {
        /// Keep it until it is archived.
        Keep = "keep",
        /// Remove it once the result is delivered.
        Delete = "delete",
    }
}

words! {
    /// The languages that Sortie speaks.
    Lang {
        /// English.
        En = "en",
        /// Chinese.
        Zh = "zh",
    }
}

words! {
    /// How a child's result reaches its parent.
    Announce {
        /// Enters the parent's turn at its next model call.
        Steer = "steer",
        /// Nobody is told; the record has the result.
        Silent = "silent",
    }
}
