//! Computes the mounts that a view must have, which the helper verifies before it starts the
//! program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::mounts::{self, Mount};
use crate::open_exact;
use crate::orders::Order;

/// A place at which the view mounts something.
pub(crate) enum Place<'a> {
    /// Shows a part of the old root, the first path, at the second.
    Part(&'a Path, &'a Path),
    /// Hides what the old root has there.
    Mask(&'a Path),
}

impl Place<'_> {
    pub(crate) fn at(&self) -> &Path {
        match self {
            Self::Part(_, at) | Self::Mask(at) => at,
        }
    }
}

/// Returns the expectations of a view, and the order to verify them; fails with the path that
/// cannot be reached without following a link.
pub(crate) fn promises(view: &[Order]) -> Result<Vec<Order>, (PathBuf, io::Error)> {
    // If the table cannot be read, each file is identified by its inode number.
    let table = mounts::read(&fs::read(mounts::TABLE).unwrap_or_default());
    let visible = mounts::visible(&table);
    let places = uncovered(view);
    let mut orders = Vec::new();
    for place in &places {
        orders.push(match place {
            Place::Part(from, at) => part(&visible, from, at)?,
            Place::Mask(at) => Order::Mask { at: (*at).into() },
        });
    }
    orders.extend(along(&visible, &places));
    orders.push(Order::Prove {});
    Ok(orders)
}

/// Returns the places that no later mount covers.
fn uncovered(view: &[Order]) -> Vec<Place<'_>> {
    let mut found: Vec<Place<'_>> = Vec::new();
    for place in view.iter().filter_map(place) {
        found.retain(|earlier| !earlier.at().starts_with(place.at()));
        found.push(place);
    }
    found
}

/// Returns the place that an order shows or hides; other orders do neither.
pub(crate) fn place(order: &Order) -> Option<Place<'_>> {
    if let Order::Read { from, at } | Order::Write { from, at } = order {
        Some(Place::Part(from, at))
    } else if let Order::Scratch { at, .. } | Order::HideFile { at } | Order::HideFolder { at } =
        order
    {
        Some(Place::Mask(at))
    } else {
        None
    }
}

fn part(visible: &[&Mount], from: &Path, at: &Path) -> Result<Order, (PathBuf, io::Error)> {
    let at = at.to_owned();
    if let Some((device, root)) = mounts::expected(visible, from) {
        let root = root.into();
        return Ok(Order::Part { at, device, root });
    }
    let known = open_exact::identity(from).map_err(|cause| (from.to_owned(), cause));
    known.map(|(device, number)| Order::Same { at, device, number })
}

/// Returns the existing nested mounts that the view includes together with their folder.
fn along(visible: &[&Mount], places: &[Place<'_>]) -> Vec<Order> {
    let mut found = Vec::new();
    for mount in visible {
        let is_place = places.iter().any(|place| place.at() == mount.at);
        let comes = places.iter().any(|place| match place {
            Place::Part(from, at) => from == at && mount.at.starts_with(at),
            Place::Mask(_) => false,
        });
        if comes && !is_place {
            found.push(Order::Along {
                at: mount.at.clone(),
                device: mount.device.clone(),
                root: mount.root.clone().into(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Order {
        Order::Read {
            from: path.into(),
            at: path.into(),
        }
    }

    #[test]
    fn only_what_can_be_seen_is_promised() {
        let view = [
            read("/a/b"),
            Order::Scratch {
                at: "/a".into(),
                size_bytes: 1,
            },
            read("/a/c"),
            read("/a/c/d"),
            Order::HideFolder {
                at: "/a/c/d".into(),
            },
            read("/ab"),
        ];
        let left: Vec<_> = uncovered(&view)
            .iter()
            .map(|place| place.at().to_owned())
            .collect();
        assert_eq!(left, ["/a", "/a/c", "/a/c/d", "/ab"].map(PathBuf::from));
    }
}
