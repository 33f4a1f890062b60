//! Times in JSON that scripts read.

use std::io;

use serde::Serialize;
use serde_json::Value;
use sortie_core::Timestamp;

use crate::problem::Problem;

/// A value as JSON, with these of its fields as RFC 3339 and not as the store counts.
pub(super) fn with_times(value: &impl Serialize, fields: &[&str]) -> Result<Value, Problem> {
    let mut json = serde_json::to_value(value)
        .map_err(io::Error::from)
        .map_err(Problem::Output)?;
    for field in fields {
        if let Some(time) = json.get_mut(field)
            && let Some(millis) = time.as_i64()
        {
            *time = Value::String(Timestamp(millis).to_rfc3339());
        }
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_times_that_are_there_are_written_out() {
        let value = json!({"at": 0, "replied_at": null, "count": 0});
        assert_eq!(
            with_times(&value, &["at", "replied_at", "missing"]).unwrap(),
            json!({"at": "1970-01-01T00:00:00.000Z", "replied_at": null, "count": 0})
        );
    }
}
