//! Compares the tools of a server with the approved ones.

use std::sync::Arc;

use crate::announced::{Announced, LeftOut, Listing};
use crate::approval::{Approved, ListedTool};
use crate::{ApprovalError, Approvals, ToolChange};

/// The tools of a server after the comparison.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    pub(crate) tools: Vec<Announced>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Tools that are withdrawn until they are approved again.
    pub(crate) changes: Vec<ToolChange>,
}

/// Compares a listing with the approved tools, and approves tools on first use.
pub(crate) async fn judge(
    server: &str,
    mut listing: Listing,
    approvals: Arc<dyn Approvals>,
) -> Offers {
    let name = server.to_owned();
    let seen: Vec<ListedTool> = listing.tools.iter().map(seen).collect();
    // Blocking: reads and locks files.
    let judged = tokio::task::spawn_blocking(move || compare(&name, seen, &*approvals));
    let problem = match judged.await {
        Ok(Ok(judged)) => return split(server, listing, &judged),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    // If the approvals are unreadable, nothing is approved.
    for tool in std::mem::take(&mut listing.tools) {
        let reason = format!("it cannot be compared with the approved description: {problem}");
        listing.leave_out(&tool.name, reason);
    }
    split(server, listing, &[])
}

fn compare(
    server: &str,
    seen: Vec<ListedTool>,
    approvals: &dyn Approvals,
) -> Result<Vec<Approved>, ApprovalError> {
    let judged = approvals.approved(server, &seen)?;
    let new = seen.into_iter().zip(&judged);
    let new = new.filter(|(_, approved)| **approved == Approved::New);
    let new: Vec<ListedTool> = new.map(|(seen, _)| seen).collect();
    if !new.is_empty() {
        approvals.record(server, &new)?;
    }
    Ok(judged)
}

fn split(server: &str, listing: Listing, judged: &[Approved]) -> Offers {
    let mut offers = Offers {
        left_out: listing.left_out,
        ..Offers::default()
    };
    for (tool, approved) in listing.tools.into_iter().zip(judged) {
        match approved {
            Approved::Same | Approved::New => offers.tools.push(tool),
            Approved::Changed { before } => offers.changes.push(ToolChange {
                server: server.to_owned(),
                tool: tool.name,
                description: tool.spec.description,
                fingerprint: tool.fingerprint,
                before: before.clone(),
                text: tool.text,
            }),
        }
    }
    offers
}

fn seen(tool: &Announced) -> ListedTool {
    ListedTool {
        tool: tool.name.clone(),
        fingerprint: tool.fingerprint.clone(),
        text: tool.text.clone(),
    }
}
